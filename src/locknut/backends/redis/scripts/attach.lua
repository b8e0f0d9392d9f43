-- Swap the id of a detached hold for a new one, and renew it: a compare-and-swap (S15).
-- Answers the hold's number, or 0: it is not there any more. Asked again it finds its own.
-- The same works backwards: a client that gives an attach up swaps the new id for the detached one,
-- and is never heard of again. The hold is then detached as it was, for the next client to attach.
-- ARGV 1 old id, 2 new id and what people may see, 3 ttl, 4 mode, 5 limit, 6 tombstone's time,
--      7 'back' or ''

-- include keys
-- include fence
-- include granting
-- include settle

local old, id, shown = ARGV[1], string.sub(ARGV[2], 1, 32), string.sub(ARGV[2], 33)
local back = ARGV[7] == 'back'
local there = holds(id)
local raw = 0
if (there or holds(old)) and (back or not buried(id)) then
  if there then -- asked again, late perhaps: it may have been detached again meanwhile, for longer
    raw = back and raw_of(id) or again(id, tonumber(ARGV[3]))
  else
    raw = raw_of(old)
    if kind == 'string' then
      redis.call('set', HOLD, ARGV[2], 'PX', ARGV[3])
    else
      redis.call('zrem', HOLD, old)
      redis.call('hdel', INFO, '=' .. old)
      put(id, ARGV[4], tonumber(ARGV[3]), raw, ARGV[5], shown)
    end
  end
end
if back then
  redis.call('zrem', ALIVE, '-' .. id)
end
if raw > 0 or back then
  bury(old, tonumber(ARGV[6])) -- from now on a late sending of it must not get in (L3)
end
settle()
keep()
return raw
