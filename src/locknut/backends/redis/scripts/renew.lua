-- Set the time that a hold has left. Answers 1, or 0: not held (any more); this never revives. Or a
-- text: it is not held because somebody broke it, and this is the note about that (inspect.lua).
-- A renewal never shortens: it may come late, after the hold was detached for longer.
-- KEYS 1 hold, and the others (keys.lua) where the hold may be more than one plain claim's. With the
-- hold alone this answers -1 where the others are needed: while a slot moves to another node, a
-- command that names a key which is not there is not run at all, and most of them never are.
-- ARGV 1 claim id, 2 ttl, 3 'detach' to have it live for just that long, or ''
local detaches = ARGV[3] == 'detach'
if redis.pcall('getrange', KEYS[1], 0, 31) == ARGV[1] then
  if detaches or redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  if detaches then -- what was asked for stands in the hold
    local front, back = redis.call('getrange', KEYS[1], 0, 41), redis.call('getrange', KEYS[1], 52, -1)
    redis.call('set', KEYS[1], front .. string.format('%010.0f', ARGV[2]) .. back, 'PX', ARGV[2])
  end
  -- The fence has this hold's number, so it has to stay; a later end is always safe (S11). It may
  -- have left for another node before the hold does: then the next renewal sees to it there.
  local fence = KEYS[1] .. ':fence'
  local left = redis.pcall('pttl', fence)
  if type(left) == 'number' and left >= 0 and left < tonumber(ARGV[2]) then
    redis.call('pexpire', fence, string.format('%.0f', ARGV[2] + 3600000))
  end
  return 1
end
if #KEYS == 1 then
  return -1
end

-- include keys
-- include fence
-- include granting
-- include settle

local id = ARGV[1]
local ends = kind == 'zset' and holds(id)
if ends then
  -- A full server refuses commands that may need memory (-OOM) unless a script has written before:
  -- this removes nothing, and from here on the script may write.
  redis.call('zrem', HOLD, '')
  redis.call('zadd', HOLD, detaches and now + ARGV[2] or math.max(now + ARGV[2], tonumber(ends)), id)
  if detaches then
    local has = redis.call('hget', INFO, '=' .. id) or ''
    local front, back = string.match(has, '^(%S+ %d+ %d+ %d%d%d%d%d%d%d%d%d%d)%d%d%d%d%d%d%d%d%d%d(.*)$')
    if front then
      redis.call('hset', INFO, '=' .. id, front .. string.format('%010.0f', ARGV[2]) .. back)
    end
  end
else
  leave(id) -- if it stands in line, then in a line of an older state: a claim that renews does not wait
end
settle()
if kind == 'zset' then
  keep()
end
local note = not ends and redis.pcall('get', HOLD .. ':broken:' .. string.sub(id, 1, 16))
return ends and 1 or type(note) == 'string' and note or 0
