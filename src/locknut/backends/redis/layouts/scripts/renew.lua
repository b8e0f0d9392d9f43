-- Set the time that a hold has left. Answers 1, or 0: not held (any more); this never revives. Or a
-- text: it is not held because somebody broke it, and this is the note about that.
-- A renewal never shortens: it may come late, after the hold was detached for longer.
-- ARGV 1 claim id, 2 ttl, 3 'detach' to have it live for just that long, or '', 4 the key of that note,
--      5 channel

-- include claims

local mine = claims[ARGV[1]]
if mine then
  mine.ends = math.max(now + ARGV[2], ARGV[3] == 'detach' and 0 or mine.ends)
  put(ARGV[1], mine)
  keep()
end
local note = not mine and redis.pcall('get', ARGV[4])
return mine and 1 or type(note) == 'string' and note or 0
