-- Swap the id of a parked hold for a new one, and renew it: a compare-and-swap (S15). What stands in
-- the key stays, so others see nothing of it. Answers the hold's number, or 0: it is not there any
-- more. Asked again it finds its own.
-- KEYS, the last: the tombstone of the parked claim
-- ARGV 1 new id, 2 ttl, 3 parked id, 4 what people may see, 5 the tombstone's time, 6 channel

-- include claims

local id, parked = ARGV[1], ARGV[3]
local mine = claims[id] or claims[parked]
if not mine or redis.call('exists', STONE) == 1 then
  return 0
end
drop(parked)
mine.ends, mine.shown = now + ARGV[2], ARGV[4]
put(id, mine)
keep()
-- From now on the parked claim is nobody's: a late sending of it must not get in (L3).
redis.call('set', KEYS[#KEYS], '1', 'PX', ARGV[5])
return mine.raw
