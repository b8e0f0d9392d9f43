-- Who holds, for people: no claim id is shown. With ARGV[2] given, the hold is broken.
-- Answers {mode, number, ms left, shown} of each; mode ? and number 0 if it is not ours.
-- ARGV 1 only this number is broken ('' for any), 2 'break' or '', 3 a note to the holder or '',
--      4 what the key of such a note begins with, 5 channel

-- include claims

local found = {}
for _, claim in pairs(claims) do
  found[#found + 1] = {claim.mode, claim.raw, claim.ends - now, claim.shown}
end
if #found == 0 then
  found = strangers()
end
if ARGV[2] == 'break' and #found > 0 then
  if ARGV[1] ~= '' and ARGV[1] ~= text(found[1][2]) then
    return {}
  end
  for id in pairs(claims) do -- a listening holder hears at once; the id is worth nothing from then on
    if ARGV[3] ~= '' then
      redis.pcall('publish', 'locknut:broken', id .. ' ' .. ARGV[3])
    end
    redis.call('publish', 'locknut:broken', id)
  end
  free()
  for id, claim in pairs(claims) do -- for the others: until the hold would have run out, or a day
    if ARGV[3] ~= '' then
      redis.pcall('set', ARGV[4] .. id, ARGV[3], 'PX', text(math.min(claim.ends - now, 86400000)))
    end
  end
end
return found
