-- Give a vote back, and leave the line. Answers {1, 0, clock}, or {0, 0, clock}: there was none.
-- ARGV 1 claim id, 2 how long a tombstone has to stand (0: none is needed), 3 '1' to stay in line

-- include node

local id = ARGV[1]
local held = redis.call('zrem', HOLD, id)
redis.call('hdel', INFO, '=' .. id)
if ARGV[3] ~= '1' then
  leave(id)
end
if ARGV[2] ~= '0' then
  bury(id, tonumber(ARGV[2]))
end
if held == 1 and ARGV[3] ~= '1' then
  ring()
end
keep()
return {held, 0, clock}
