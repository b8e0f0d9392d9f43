-- The number of the next grant: one above the last, and never behind this server's clock, in steps of
-- 32 us. The clock counts at every grant, because a key that is there may be an old one: that of a
-- replica which lagged, or of a snapshot. The key stays for an hour after the moment that its number
-- names, which may lie ahead of a clock that was set back (S11), and for as long as a hold that tells
-- its number by it.
local function next_fence(key, time, ttl)
  local clock = math.floor((time[1] * 1000000 + time[2]) / 32)
  local raw = math.max(tonumber(redis.call('get', key) or 0) + 1, clock)
  local ahead = math.ceil((raw - clock) * 0.032)
  redis.call('set', key, raw, 'PX', ahead + ttl + 3600000)
  return raw
end
