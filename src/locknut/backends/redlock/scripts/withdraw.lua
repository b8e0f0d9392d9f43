-- Give a vote back, and leave the line. Answers {1, 0, clock}, or {0, 0, clock}: there was none.
-- ARGV 1 claim id, 2 how long a tombstone has to stand (0: none is needed), 3 '1' to stay in line,
--      4 the try that is given back ('0': all of it, the claim is over)

-- The short way: it was the only one here, nobody waits, and there is no tombstone.
local gone = 0
if ARGV[2] == '0' and ARGV[3] == '0' and ARGV[4] == '0' then
  gone = redis.call('zrem', KEYS[2], ARGV[1])
  if gone == 1 and redis.call('exists', KEYS[2], KEYS[4], KEYS[6]) == 0 then
    local time = redis.call('time')
    return {1, 0, time[1] * 1000000 + time[2]}
  end
end

-- include node

local id = ARGV[1]
if ARGV[4] ~= '0' and try_of(id) > tonumber(ARGV[4]) then
  return {0, 0, clock} -- this command came late: a later try has the vote now
end
local held = redis.call('zrem', HOLD, id) + gone
redis.call('hdel', INFO, '=' .. id, '#' .. id)
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
