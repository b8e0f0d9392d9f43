-- Set the time that a hold has left. Answers {1, 0, clock}; {2, 0, clock}: it was missing here and is
-- set anew, which does not count this time; {0, 0, clock}: this node has not got it.
-- ARGV 1 claim id and what people may see, 2 ttl, 3 mode, 4 number, 5 '1' to set anew what is missing,
--      6 run, 7 max_ttl, 8 '1' if the nodes never lose data

-- include node

-- include ready

local id, shown = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 33)
local ttl, mode = tonumber(ARGV[2]), ARGV[3]
if redis.call('zscore', HOLD, id) then
  redis.call('zadd', HOLD, text(now + ttl), id)
  redis.call('hset', INFO, '#' .. id, GRANTED)
  redis.call('pexpire', FENCE, text(DAY)) -- it may tell of this hold; a later end is always safe
  keep()
  return {1, 0, clock}
end
if ARGV[5] == '1' and not buried(id) and quarantine(ARGV[6], tonumber(ARGV[7]), ARGV[8] == '1') == 0 then
  local held = held_as()
  if not held or (held == mode and mode ~= 'x') then
    put(id, mode, ttl, tonumber(ARGV[4]), shown, GRANTED)
    keep()
    return {2, 0, clock}
  end
end
return {0, 0, clock}
