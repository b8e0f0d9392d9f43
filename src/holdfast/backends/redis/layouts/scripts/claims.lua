-- Which claims of ours hold the key, and how they are kept: the beginning of every verb in a layout
-- that other people's clients know. Put into a verb by its line "-- include claims", with the
-- layout's own part before it.
--
-- The key looks as its other users expect. What they have no room for stands beside it:
-- KEYS 1 hold       in the layout's own form, with a mark in it that no other hold ever has
--      2 fence      the number of the last grant
--      3 claims     hash: claim id -> when it runs out, its number, its mark, its mode, what people
--                   may see. Claims of one owner have one mark together. A claim whose mark is not
--                   in the key any more has lost it, to expiry or to somebody's force
--      4 tombstone  of the verb's claim, as long as a sending of it may still be on its way (L3)
-- The last of ARGV is the channel on which others wait. Times are milliseconds of this server's
-- clock; numbers are written by %.0f, or digits get lost.
local CLAIMS, STONE = KEYS[3], KEYS[4]

local function text(number)
  return string.format('%.0f', number)
end

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

-- Free for everybody, and everybody is told: nobody is granted it here, or others would starve.
local function free()
  redis.call('del', HOLD, CLAIMS)
  ring()
end
