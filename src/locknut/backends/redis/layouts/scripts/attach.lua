-- Swap the id of a detached hold for a new one, and renew it: a compare-and-swap (S15). What stands in
-- the key stays, so others see nothing of it. Answers the hold's number, or 0: it is not there any
-- more. Asked again it finds its own. The same way back, for an attach that was given up: then the
-- hold is detached as it was.
-- KEYS 4 the tombstone of the new claim; the last: that of the old one
-- ARGV 1 new id, 2 ttl, 3 old id, 4 what people may see, 5 the tombstone's time, 6 'back' or '',
--      7 channel

-- include claims

local id, old, back = ARGV[1], ARGV[3], ARGV[6] == 'back'
local mine = claims[id] or claims[old]
if not back and (not mine or redis.call('exists', STONE) == 1) then
  return 0
end
if mine and not (back and claims[id]) then
  drop(old)
  -- Asked again, late perhaps: it may have been detached again meanwhile, for longer.
  mine.ends, mine.shown = math.max(now + ARGV[2], claims[id] and mine.ends or 0), ARGV[4]
  put(id, mine)
  keep()
end
if back then
  redis.call('del', STONE)
end
-- From now on the old claim is nobody's: a late sending of it must not get in (L3).
redis.call('set', KEYS[#KEYS], '1', 'PX', ARGV[5])
return mine and mine.raw or 0
