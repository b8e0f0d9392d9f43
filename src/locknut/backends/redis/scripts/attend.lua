-- Show that a client is alive, for all its claims in this line: one command in place of one for each.
-- Answers {ask again in ms, number of the last grant, 1 if one of the claims is lost, else 0}; 0 ms if
-- the first claim is granted. This verb also shortens a hold that would run out too late, because it
-- is from before the clock was set back.
-- ARGV 1 the client, 2 and on: some of its claims; the first one is that of the caller

-- include keys
-- include fence
-- include granting
-- include settle

-- The ttl that was asked for, as it stands in what people may see.
local function asked(shown)
  return tonumber(string.sub(shown, 11, 20))
end

if kind == 'string' then
  local most = asked(redis.call('getrange', HOLD, 32, 51))
  if most and redis.call('pttl', HOLD) > most then
    redis.call('pexpire', HOLD, most)
  end
elseif kind == 'zset' then
  for _ = 1, redis.call('zcard', HOLD) do
    local last = redis.call('zrange', HOLD, -1, -1, 'WITHSCORES')
    local shown = string.match(redis.call('hget', INFO, '=' .. last[1]) or '', '^%S+ %d+ %d+ (.*)$')
    local most = shown and asked(shown)
    if not most or tonumber(last[2]) <= now + most then
      break
    end
    redis.call('zadd', HOLD, now + most, last[1])
  end
end

local client, first, lost = ARGV[1], ARGV[2], 0
if redis.call('exists', LINE) == 1 then
  redis.call('zadd', ALIVE, now + SILENCE, client)
end
settle()
for at = 2, #ARGV do
  local id = ARGV[at]
  if not holds(id) and not (redis.call('zscore', LINE, id) and redis.call('hget', INFO, id)) then
    lost = 1
  end
end
if redis.call('exists', LINE) == 1 then
  stay()
end
local retry = 1000
if holds(first) then
  retry = 0
else
  -- Only the clients of the first two learn when the hold runs out: all would be a herd (L6).
  for _, id in ipairs(redis.call('zrange', LINE, 0, 1)) do
    local of = string.match(redis.call('hget', INFO, id) or '', '^%S+ %d+ %d+ %S+ (%S+) ')
    if of == client then
      local left = redis.call('pttl', HOLD)
      if kind == 'zset' then
        left = tonumber(redis.call('zrange', HOLD, 0, 0, 'WITHSCORES')[2]) - now
      end
      if left >= 0 then
        retry = math.min(retry, left + 1)
      end
    end
  end
end
return {retry, tonumber(redis.call('get', FENCE) or 0), lost}
