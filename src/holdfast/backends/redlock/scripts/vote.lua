-- Ask this node for its vote, and propose a number. Answers {what, number, clock}:
--   {1, number}: voted and accepted; {2, largest number here}: voted, but the number was too small;
--   {3, number}: joined the hold of the same owner, which has this number;
--   {0, ask again in ms}: somebody else has it, and the claim stands in line if it wanted to;
--   {-1, ms}: no votes for so long; {-2, max_ttl}: other clients count on another max_ttl;
--   {-3, 0}: this claim was withdrawn.
-- ARGV 1 claim id and what people may see, 2 ttl, 3 mode, 4 number, 5 since when it waits,
--      6 where to ring ('' for a mere try), 7 run of the server as the client knows it, 8 max_ttl,
--      9 '1' if the nodes never lose data

-- include node

-- include ready

local id, shown = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 33)
local ttl, mode, number = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local wait, other = quarantine(ARGV[7], tonumber(ARGV[8]), ARGV[9] == '1')
if not wait then
  return {-2, other, clock}
elseif wait > 0 then
  return {-1, wait, clock}
elseif buried(id) then
  return {-3, 0, clock}
end

-- Whether a writer has been waiting for longer than this reader.
local function overtakes()
  if mode ~= 's' then
    return false
  end
  for _, other in ipairs(redis.call('zrange', LINE, 0, 63)) do
    if other == id then
      return false
    elseif not is_reader(other) and not redis.call('zscore', HOLD, other) then
      return true
    end
  end
  return false
end

-- The number of the owner's hold, as far as this node knows it; false if nobody else is in it. Whoever
-- asks again is no less a co-owner than the first time.
local function number_with_others()
  local raw, others = 0, false
  for _, one in ipairs(redis.call('zrange', HOLD, 0, -1)) do
    others = others or one ~= id
    raw = math.max(raw, tonumber(string.match(redis.call('hget', INFO, '=' .. one) or '', '^%S+ (%d+)') or 0))
  end
  return others and raw
end

local mine = redis.call('zscore', HOLD, id)
local held = held_as()
if mine or not held or (held == mode and mode ~= 'x') then
  if mine or not overtakes() then
    local raw, what = 0, 2
    if held and string.sub(mode, 1, 1) == 'o' then
      local known = number_with_others()
      raw, what = known or 0, known and 3 or 2
    end
    if what == 2 then
      local accepted, largest = accept(id, number)
      what, raw = accepted and 1 or 2, largest
    end
    -- Asked again after a lost answer: the full ttl from now on (S8).
    -- A number that was not accepted is nobody's: a co-owner who joins must not take it for the hold's.
    put(id, mode, ttl, what == 2 and 0 or raw, shown)
    keep()
    return {what, raw, clock}
  end
end

local retry = 1000
if ARGV[6] ~= '' then
  redis.call('zadd', LINE, 'NX', ARGV[5], id)
  redis.call('zadd', ALIVE, text(now + SILENCE), id)
  redis.call('hset', INFO, id, mode .. ' ' .. ARGV[6] .. ' ' .. shown)
  keep()
  -- Only the first two are told when the hold runs out: all of them would be a herd (L6).
  if held and redis.call('zrank', LINE, id) < 2 then
    local ends = tonumber(redis.call('zrange', HOLD, 0, 0, 'WITHSCORES')[2])
    retry = math.min(retry, ends - now + 1)
  end
end
return {0, retry, clock}
