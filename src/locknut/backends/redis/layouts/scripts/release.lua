-- Give a hold back, or stop waiting for it. Answers 1, or 0 if the claim held nothing.
-- ARGV 1 claim id, 2 how long a tombstone has to stand (0: none is needed), 3 mark, 4 channel

-- include claims

local mine = claims[ARGV[1]]
if mine then
  drop(ARGV[1])
  if next(claims) then
    keep()
  else
    free()
  end
else
  leave(ARGV[3])
end
if ARGV[2] ~= '0' then
  redis.call('set', STONE, '1', 'PX', ARGV[2])
end
return mine and 1 or 0
