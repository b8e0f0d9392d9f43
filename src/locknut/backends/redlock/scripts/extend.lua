-- Set the time that a hold has left. Answers {1, 0, clock}; {2, 0, clock}: it was missing here and is
-- set anew, which does not count this time; {0, 0, clock}: this node does not have it, or {0, note,
-- clock} if somebody broke it and said why; {-1, ms, clock}: this node does not have it and does not
-- take it for that many ms, because it is in quarantine.
-- ARGV 1 claim id and what people may see, 2 ttl, 3 mode, 4 number, 5 '1' to set anew what is missing,
--      6 'detach' to have it live for just that long, or '', 7 terms, 8 '1' if the nodes never lose data

-- include node

-- include ready

local id, shown = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 33)
local ttl, mode = tonumber(ARGV[2]), ARGV[3]
if of_another_set(ARGV[7]) then
  return {0, 0, clock} -- these clients must not hold anything here any more
end
local detaches = ARGV[6] == 'detach'
local ends = redis.call('zscore', HOLD, id)
if ends then
  local detached = detaches or try_of(id) == tonumber(DETACHED)
  redis.call('zadd', HOLD, text(now + (detaches and ttl or prolonged(id, ends, ttl))), id)
  redis.call('hset', INFO, '#' .. id, detached and DETACHED or GRANTED)
  if mode == 's' and held_as() == 'x' then
    turn_shared(id) -- the downgrade did not reach this node, or a late renewal from before it did
  end
  local number = tonumber(string.match(redis.call('get', FENCE) or '', '^%d+'))
  if number then
    redis.call('pexpireat', FENCE, remembered(number)) -- it may be the number of this hold
  end
  keep()
  return {1, 0, clock}
end
if ARGV[5] == '1' and not buried(id) then
  local hindered, by = hindrance(ARGV[7], ARGV[8] == '1')
  if hindered == -1 then
    return {-1, by, clock}
  end
  local held = held_as()
  if hindered == 0 and (not held or (held == mode and mode ~= 'x')) then
    put(id, mode, ttl, tonumber(ARGV[4]), shown, detaches and DETACHED or GRANTED)
    keep()
    return {2, 0, clock}
  end
end
local note = redis.pcall('get', note_to(id))
return {0, type(note) == 'string' and note or 0, clock}
