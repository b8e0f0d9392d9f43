-- A machine tells a node in quarantine the time of its own steady clock, which nobody sets. The node
-- votes again when the longest ttl has passed by that clock, since this machine asked first, and by
-- its own: either may be wrong. Answers {1, 0, clock}: it votes; {0, ms that are left, clock}.
-- ARGV 1 machine, 2 its clock in ms, 3 the time that a majority of the nodes has, in microseconds (0:
--      not known), 4 terms, 5 not looked at

-- include node

-- include ready

local field, shows, majority_time = '@' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local run, max_ttl, votes, began, first = unpack(redis.call('hmget', MARKER, 'run', 'max_ttl', 'votes', 'began', field))
if not run or run ~= string.match(ARGV[4], '^[^:]*') then
  return {0, 0, clock} -- the server was restarted: a new quarantine begins with the next vote
elseif votes then
  return {1, 0, clock}
end
first = tonumber(first)
if not first or shows < first then
  first = shows
  redis.call('hset', MARKER, field, text(first))
end
local wait = wait_for(tonumber(max_ttl))
local left = math.max(tonumber(began) + wait - now, first + wait - shows)
if left > 0 or majority_time == 0 then
  return {0, math.max(1, left), clock}
end
let_vote(string.match(ARGV[4], '^.-:%d+:(.*)$'), majority_time)
return {1, 0, clock}
