-- Give a hold back, or leave the line. Answers 1, or 0 if the claim held nothing.
-- If a claim waits in line, the lock does not become free: that claim has it, in this very step.
-- ARGV 1 claim id, 2 how long a tombstone has to stand (0: none is needed)
local held = redis.pcall('getrange', KEYS[1], 0, 31) == ARGV[1]
if held and ARGV[2] == '0' and redis.call('exists', KEYS[3]) == 0 then
  redis.call('del', KEYS[1])
  return 1
end

-- include keys
-- include fence
-- include granting

-- From one exclusive holder to the next: what a crowd does all the time.
if held and ARGV[2] == '0' then
  local first, mode, ttl, _, reply_to, _, shown = first_in_line()
  if mode == 'x' then
    leave(first)
    ttl = math.min(GRANT, tonumber(ttl))
    tell(first, reply_to, enter_alone(first, ttl, shown), ttl)
    return 1
  end
end
if held then
  redis.call('del', KEYS[1])
end

-- include settle

local id = ARGV[1]
if not held then
  held = kind == 'zset' and holds(id)
  if held then
    redis.call('zrem', HOLD, id)
    redis.call('hdel', INFO, '=' .. id)
    kind = redis.call('type', HOLD)['ok']
  else
    leave(id)
  end
end
if ARGV[2] ~= '0' then
  bury(id, tonumber(ARGV[2]))
end
settle()
if kind == 'zset' or ARGV[2] ~= '0' then
  keep()
end
return held and 1 or 0
