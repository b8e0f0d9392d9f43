-- An operator says that this node has lost nothing that anybody counts on: it votes from now on.
-- Answers {1, 0, clock}; {2, 0, clock}: it votes already, nothing was changed; {-2, max_ttl, clock} or
-- {-6, 0, clock}: it has clients with another max_ttl, or another list of nodes.
-- ARGV 1 max_ttl, 2 set, 3 '1' to do it whatever settings its clients have

-- include node

-- include ready

local max_ttl, set = tonumber(ARGV[1]), ARGV[2]
local run, its_set, its_max_ttl, votes = unpack(redis.call('hmget', MARKER, 'run', 'set', 'max_ttl', 'votes'))
if ARGV[3] ~= '1' then
  if its_max_ttl and tonumber(its_max_ttl) ~= max_ttl then
    return {-2, tonumber(its_max_ttl), clock}
  elseif its_set and its_set ~= set then
    return {-6, 0, clock}
  end
end
if votes and run == reported('server', 'run_id') and its_set == set and tonumber(its_max_ttl) == max_ttl then
  return {2, 0, clock}
end
begin(max_ttl)
let_vote(set, 0)
return {1, 0, clock}
