-- Turn an exclusive hold into a shared one, and ring the readers at the head of the line.
-- Answers {1, 0, clock}, or {0, 0, clock}: not held here. Asking twice is the same as asking once.
-- ARGV 1 claim id

-- include node

local id = ARGV[1]
if not redis.call('zscore', HOLD, id) then
  return {0, 0, clock}
end
turn_shared(id)
keep()
return {1, 0, clock}
