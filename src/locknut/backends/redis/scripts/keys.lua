-- What a verb needs once its shortest way does not fit: the keys, the time, and how long they stay.
--
-- KEYS 1 hold   a string (claim id and what people may see) for one plain exclusive holder, or
--               a sorted set (claim id -> expiry) for readers, co-owners and permits
--      2 fence  the number of the last grant
--      3 alive  sorted set: client with claims in line -> taken for dead at; '-' and claim id ->
--               tombstone ends at
--      4 line   sorted set: waiting claim id -> place
--      5 info   hash: claim id -> what a waiter asked for; '=' and id -> what such a holder has
-- What people may see begins with since when (ten digits, seconds) and the ttl that was asked for (ten
-- digits, milliseconds).
-- Modes: x exclusive, s shared, p permit, o and the owner's name for claims of one owner.
-- Times are milliseconds of this server's clock. What stands inside a text is written by %.0f, or
-- digits get lost; as an argument of a command a number is exact.
local HOLD, FENCE, ALIVE, LINE, INFO = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local GRANT = 3000 -- how long a grant lives that its owner has not confirmed yet
local SILENCE = 3000 -- a client that was silent for this long is dead; live ones ask every second

local kind, holder = 'none', false -- the type of the hold; whose it is if it is a string
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- No key stays much longer than the last thing in it that runs out. To be called when something was
-- added; a removal alone does not need it.
local function keep(least)
  local last = tonumber(redis.call('zrange', ALIVE, -1, -1, 'WITHSCORES')[2] or 0)
  last = math.max(last, least or 0)
  if last > 0 then
    redis.call('pexpireat', ALIVE, last + 1000)
    redis.call('pexpireat', LINE, last + 1000)
  end
  if kind == 'zset' then
    local ends = tonumber(redis.call('zrange', HOLD, -1, -1, 'WITHSCORES')[2])
    redis.call('pexpireat', HOLD, ends)
    last = math.max(last, ends)
    -- Before 7.2 the clock goes on while a script runs: all may have run out in this very step.
    kind = redis.call('exists', HOLD) == 1 and 'zset' or 'none'
  end
  redis.call('pexpireat', INFO, last + 1000) -- never before the line: it says who stands there
end

-- Waiters stay for a while only: lines come and go. A tombstone or a holder may keep one of the keys
-- for longer than the others, so all are looked at.
local function stay()
  if redis.call('pttl', LINE) <= SILENCE or redis.call('pttl', INFO) <= SILENCE
      or redis.call('pttl', ALIVE) <= SILENCE then
    keep(now + 2 * SILENCE)
  end
end
