-- Set the time that a hold has left. Answers 1, or 0: not held (any more); this never revives.
-- ARGV 1 claim id, 2 ttl, 3 channel

-- include claims

local mine = claims[ARGV[1]]
if mine then
  mine.ends = now + ARGV[2]
  put(ARGV[1], mine)
  keep()
end
return mine and 1 or 0
