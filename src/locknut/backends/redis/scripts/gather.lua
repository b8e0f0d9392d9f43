-- Ask for several holds at once: all of them or none, and nobody is put in a line.
-- Answers the number of each, or 0: not all of them are free. Asked again it finds its own.
-- KEYS the five of each name, one name after the other
-- ARGV for each name: claim id and what people may see, ttl, mode, limit of permits

-- include fence

-- One name: whether the claim could have it (or has it), or, `taking` it, its number.
local function visit(KEYS, ARGV, taking)
  if ARGV[3] == 'x' and redis.call('exists', KEYS[1], KEYS[3]) == 0 then
    if not taking then
      return true
    end
    redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return next_fence(KEYS[2], redis.call('time'), ARGV[2])
  end

-- include keys
-- include granting
-- include settle

  local id, shown = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 33)
  local ttl, mode, limit = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
  if holds(id) then
    return not taking or again(id, ttl)
  elseif not taking then
    if buried(id) then
      return false
    end
    settle()
    local rejoins = kind == 'zset' and string.sub(mode, 1, 1) == 'o'
    return (rejoins or redis.call('exists', LINE) == 0) and fits(mode, limit)
  end
  local raw = enter(id, mode, ttl, limit, shown)
  keep()
  return raw
end

local function all(taking)
  local answers = {}
  for at = 1, #KEYS / 5 do
    local keys, arguments = {unpack(KEYS, at * 5 - 4, at * 5)}, {unpack(ARGV, at * 4 - 3, at * 4)}
    local answer = visit(keys, arguments, taking)
    if type(answer) == 'table' or not answer then
      return false, answer
    end
    answers[at] = answer
  end
  return answers
end

local free, refused = all(false)
if not free then
  return refused or 0
end
return (all(true))
