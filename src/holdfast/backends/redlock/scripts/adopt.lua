-- Swap the id of a parked hold for a new one, and renew it: a compare-and-swap (S15).
-- Answers {1, number, clock}, or {0, 0, clock}: it is not here (any more). Asked again it finds its own.
-- ARGV 1 parked id, 2 new id and what people may see, 3 ttl, 4 tombstone's time

-- include node

local parked, id, shown = ARGV[1], string.sub(ARGV[2], 1, 32), string.sub(ARGV[2], 33)
local old = redis.call('zscore', HOLD, id) and id or redis.call('zscore', HOLD, parked) and parked
if not old or buried(id) then
  return {0, 0, clock}
end
local mode, raw = string.match(redis.call('hget', INFO, '=' .. old) or 'x 0', '^(%S+) (%d+)')
redis.call('zrem', HOLD, old)
redis.call('hdel', INFO, '=' .. old)
put(id, mode, tonumber(ARGV[3]), tonumber(raw), shown)
-- From now on the parked claim is nobody's: a late sending of it must not get in (L3).
bury(parked, tonumber(ARGV[4]))
keep()
return {1, tonumber(raw), clock}
