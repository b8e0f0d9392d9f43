-- The second round: a higher number, taken only where the vote still stands (S2).
-- Answers {1, number, clock}, {2, largest number here, clock}, or {0, 0, clock}: the vote is gone.
-- ARGV 1 claim id, 2 number, 3 terms, 4 '1' if the nodes never lose data

-- include node

-- include ready

local id = ARGV[1]
-- A node that lost its data since it voted may have an old copy of the vote, and of the number.
if hindrance(ARGV[3], ARGV[4] == '1') < 0 or not redis.call('zscore', HOLD, id) then
  return {0, 0, clock}
end
local mode, shown = string.match(holder_facts(id) or 'x 0 ', '^(%S+) %d+ (.*)$')
local accepted, largest = accept(id, tonumber(ARGV[2]), shown)
if accepted then
  redis.call('hset', INFO, '=' .. id, mode .. ' ' .. text(largest) .. ' ' .. shown)
  keep() -- a vote that came the short way had nothing there
end
return {accepted and 1 or 2, largest, clock}
