-- Turn an exclusive hold into a shared one, and let the readers at the head of the line in.
-- Answers 1, or 0: not held. Asking twice is the same as asking once.
-- ARGV 1 claim id

-- include keys
-- include fence
-- include granting
-- include settle

local id = ARGV[1]
local held = holds(id)
if held and kind == 'string' then
  local shown, left, raw = redis.call('getrange', HOLD, 32, -1), redis.call('pttl', HOLD), raw_of(id)
  redis.call('del', HOLD)
  put(id, 's', left, raw, 1, shown)
end
settle()
keep()
return held and 1 or 0
