-- Set the time that a hold has left. Answers 1, or 0: not held (any more); this never revives.
-- ARGV 1 claim id, 2 ttl
if redis.pcall('getrange', KEYS[1], 0, 31) == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  -- The fence tells this hold's number, so it has to stay; a later end is always safe (S11).
  local left = redis.call('pttl', KEYS[2])
  if left >= 0 and left < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[2], string.format('%.0f', ARGV[2] + 3600000))
  end
  return 1
end

-- include keys
-- include fence
-- include granting
-- include settle

local held = kind == 'zset' and holds(ARGV[1])
if held then
  redis.call('zadd', HOLD, now + ARGV[2], ARGV[1])
else
  leave(ARGV[1]) -- if it stands in line, then in one of an older state: who renews does not wait
end
settle()
if kind == 'zset' then
  keep()
end
return held and 1 or 0
