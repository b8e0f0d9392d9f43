-- Ask for a hold. Answers its number, or {ask again in ms, number of the last grant}: then the claim
-- stands in line, and gets a message when it is granted.
-- ARGV 1 claim id and what people may see, 2 ttl, 3 mode, 4 limit of permits, 5 where that message
--      goes: '' if the claim does not wait, 6 its client, which shows by `attend` that it is alive

-- include fence

local sleeps = string.byte(ARGV[5]) == 98 -- b: its BLPOP came with this and is next
if not sleeps and ARGV[3] == 'x' and redis.call('exists', KEYS[3]) == 0
    and redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return next_fence(KEYS[2], redis.call('time'), ARGV[2])
end

-- include keys

local id, shown = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 33)
local tombstone = redis.call('zscore', ALIVE, '-' .. id)
if tombstone and tonumber(tombstone) > now then
  return {1000, 0}
end
local left = false -- ms until the first of several holds has run out
holder = redis.pcall('getrange', HOLD, 0, 31)
if type(holder) == 'string' and holder ~= '' and holder ~= id then
  kind = 'string' -- somebody else has it alone: there is nothing to settle, and nobody fits
else

-- include granting
-- include settle

  local ttl, mode, limit = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

  local function granted(number)
    if sleeps then
      tell(id, ARGV[5], number, math.min(GRANT, ttl)) -- or its BLPOP would wait for nothing
    end
    return number
  end

  -- Asked again after a lost answer.
  if holds(id) then
    return granted(again(id, ttl))
  end

  settle(id)
  if kind ~= 'string' then
    local first = redis.call('zrange', LINE, 0, 0)[1]
    -- An owner goes past the line into its own hold, or it would wait for itself.
    local rejoins = kind == 'zset' and string.sub(mode, 1, 1) == 'o'
    if (rejoins or not first or first == id) and fits(mode, limit) then
      leave(id)
      local raw = enter(id, mode, ttl, limit, shown)
      settle()
      keep()
      return granted(raw)
    end
  end
  if kind == 'zset' then
    left = tonumber(redis.call('zrange', HOLD, 0, 0, 'WITHSCORES')[2]) - now
  end
end

if ARGV[5] == '' then
  return {1000, 0}
end
-- The claim stands behind all others, including those that came before the clock was set back.
local last = tonumber(redis.call('zrange', LINE, -1, -1, 'WITHSCORES')[2] or 0)
redis.call('zadd', LINE, 'NX', math.max(time[1] * 1000000 + time[2], last + 1), id)
redis.call('zadd', ALIVE, now + SILENCE, ARGV[6])
redis.call('hset', INFO, id, table.concat({ARGV[3], ARGV[2], ARGV[4], ARGV[5], ARGV[6], shown}, ' '))
stay()

-- Only the first two learn when the hold runs out: all of them would be a herd (L6).
local retry = 1000
if redis.call('zrank', LINE, id) < 2 then
  if not left then
    left = redis.call('pttl', HOLD)
    local most = tonumber(redis.call('getrange', HOLD, 42, 51)) -- the ttl that was asked for
    if most and left > most then -- from before the clock was set back
      redis.call('pexpire', HOLD, most)
      left = most
    end
  end
  if left >= 0 then
    retry = math.min(retry, left + 1)
  end
end
return {retry, tonumber(redis.call('get', FENCE) or 0)}
