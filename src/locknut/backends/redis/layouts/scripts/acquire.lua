-- Ask for a hold. Answers its number, or {ms that the present one lasts}: negative if nobody knows.
-- ARGV 1 claim id, 2 ttl, 3 mode (x, or o and the owner's name), 4 mark, 5 what people may see,
--      6 '' or for fair locks 'wait' or 'try' (in turn, but not in the queue), 7 channel

-- include claims

local id, mode, mark, fair = ARGV[1], ARGV[3], ARGV[4], ARGV[6] ~= ''
local mine = claims[id] -- asked again after a lost answer: the full ttl, the same number (S8)
if not mine then
  if redis.call('exists', STONE) == 1 then
    return {1000}
  end
  local _, other = next(claims)
  if other and mode ~= 'x' and other.mode == mode then
    mine = {raw = other.raw, mark = other.mark} -- an owner goes into its own hold
  elseif not taken() and in_turn(mark, fair) then
    mine = {raw = next_fence(), mark = mark}
  else
    if ARGV[6] == 'wait' then
      stand(mark)
    end
    return {redis.call('pttl', HOLD)}
  end
  leave(mark)
  mine.mode, mine.shown = mode, ARGV[5]
end
mine.ends = math.max(now + ARGV[2], mine.ends or 0) -- never less than is left: this may come late
put(id, mine)
keep()
return mine.raw
