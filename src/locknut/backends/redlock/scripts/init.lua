-- An operator says that this node has lost nothing that anybody counts on: it votes from now on.
-- Answers {1, 0, clock}.
-- ARGV 1 max_ttl

-- include node

-- include ready

begin(tonumber(ARGV[1]), true)
return {1, 0, clock}
