-- Swap the id of a detached hold for a new one, and renew it: a compare-and-swap (S15).
-- Answers {1, number, clock}; or {0, handle, clock}: the claim with this handle has it now, 0 for none.
-- Asked again it finds its own. When several clients attach at once, each may get a few nodes: then all
-- swap back.
-- Or, as for a vote, {-1, ms}, {-2, max_ttl}, {-6, 0}: a node that lost its data may have an old copy
-- of a hold that somebody attached meanwhile, and released.
-- ARGV 1 detached id, 2 new id and what people may see, 3 ttl, 4 tombstone's time, 0 to swap back,
--      5 terms, 6 '1' if the nodes never lose data

-- include node

-- include ready

local detached, id, shown = ARGV[1], string.sub(ARGV[2], 1, 32), string.sub(ARGV[2], 33)
local back = ARGV[4] == '0'
if back and of_another_set(ARGV[5]) then
  return {0, 0, clock}
end
if not back then
  local hindered, by = hindrance(ARGV[5], ARGV[6] == '1')
  if hindered < 0 then
    return {hindered, by, clock}
  end
end
local old = redis.call('zscore', HOLD, detached) and detached
if redis.call('zscore', HOLD, id) then
  old = id
end
if not old or (buried(id) and not back) then
  local one = redis.call('zrange', HOLD, 0, 0)[1]
  return {0, one and handle(one) or 0, clock}
end
local mode, raw = string.match(holder_facts(old) or 'x 0', '^(%S+) (%d+)')
local ttl, try = tonumber(ARGV[3]), back and DETACHED or GRANTED
if old == id and try_of(id) == tonumber(DETACHED) then -- asked again, late: it was detached meanwhile
  ttl, try = prolonged(id, redis.call('zscore', HOLD, id), ttl), DETACHED
end
redis.call('zrem', HOLD, old)
redis.call('hdel', INFO, '=' .. old, '#' .. old)
put(id, mode, ttl, tonumber(raw), shown, try)
if back then
  redis.call('zrem', ALIVE, '-' .. id)
else
  -- From now on the detached claim belongs to nobody: a late sending of it must not get in (L3).
  bury(detached, tonumber(ARGV[4]))
end
keep()
return {1, tonumber(raw), clock}
