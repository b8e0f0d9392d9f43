-- Swap the id of a parked hold for a new one, and renew it: a compare-and-swap (S15).
-- Answers the hold's number, or 0: it is not there any more. Asked again it finds its own.
-- ARGV 1 parked id, 2 new id and what people may see, 3 ttl, 4 mode, 5 limit, 6 tombstone's time

-- include keys
-- include fence
-- include granting
-- include settle

local parked, id, shown = ARGV[1], string.sub(ARGV[2], 1, 32), string.sub(ARGV[2], 33)
local old = holds(id) and id or holds(parked) and parked
local raw = 0
if old and not buried(id) then
  raw = raw_of(old)
  if kind == 'string' then
    redis.call('set', HOLD, ARGV[2], 'PX', ARGV[3])
  else
    redis.call('zrem', HOLD, old)
    redis.call('hdel', INFO, '=' .. old)
    put(id, ARGV[4], tonumber(ARGV[3]), raw, ARGV[5], shown)
  end
  -- From now on the parked claim is nobody's: a late sending of it must not get in (L3).
  bury(parked, tonumber(ARGV[6]))
end
settle()
keep()
return raw
