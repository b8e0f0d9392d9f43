-- Adds texts to the end of a stream of history, and lets the oldest ones go: about ARGV[1] of them
-- stay, because whole nodes are cheap to drop and single entries are not. With 0 all of it goes. A
-- stream that nobody has written to for 30 days goes away by itself.
local keep = tonumber(ARGV[1])
if keep == 0 then
  return redis.call('del', KEYS[1])
end
for at = 2, #ARGV do
  redis.call('xadd', KEYS[1], 'MAXLEN', '~', keep, '*', 'entry', ARGV[at])
end
redis.call('pexpire', KEYS[1], 2592000000)
return #ARGV - 1
