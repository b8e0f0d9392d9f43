-- Which claims of ours hold the key, and how they are kept. A verb includes this file by its line
-- "-- include claims", after keys.lua and the layout's own part.
local claims = {}
local stored = redis.call('hgetall', CLAIMS)
for at = 1, #stored, 2 do
  local ends, raw, mark, mode, shown = string.match(stored[at + 1], '^(%d+) (%d+) (%S+) (%S+) (.*)$')
  if ends and tonumber(ends) > now and marked(mark) then
    claims[stored[at]] = {ends = tonumber(ends), raw = tonumber(raw), mark = mark, mode = mode, shown = shown}
  else
    redis.call('hdel', CLAIMS, stored[at])
  end
end

-- The key lives as long as the last of its claims.
local function keep()
  local last, count, mark = 0, 0, nil
  for _, claim in pairs(claims) do
    last, count, mark = math.max(last, claim.ends), count + 1, claim.mark
  end
  if count == 0 then
    return
  end
  write(mark, count)
  redis.call('pexpireat', HOLD, text(last))
  redis.call('pexpireat', CLAIMS, text(last + 1000))
end

local function put(id, claim)
  local parts = {text(claim.ends), text(claim.raw), claim.mark, claim.mode, claim.shown}
  redis.call('hset', CLAIMS, id, table.concat(parts, ' '))
  claims[id] = claim
end

local function drop(id)
  redis.call('hdel', CLAIMS, id)
  claims[id] = nil
end

-- The lock is free, and all waiters get a message. It is not granted here, or others would starve.
local function free()
  redis.call('del', HOLD, CLAIMS)
  ring()
end
