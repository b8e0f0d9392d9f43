-- What every verb works with, in a layout that other people's clients know. The key looks as they
-- expect it; what they have no room for stands beside it.
-- KEYS 1 hold       in the layout's own form, with a mark in it that no other hold ever has
--      2 fence      the number of the last grant
--      3 claims     hash: claim id -> when it runs out, its number, its mark, its mode, what people
--                   may see. Claims of one owner have one mark together. A claim whose mark is not
--                   in the key any more has lost it, to expiry or to somebody's force
--      4 tombstone  of the verb's claim, as long as a sending of it may still be on its way (L3)
-- The last of ARGV is the channel on which others wait. Times are milliseconds of this server's
-- clock; numbers are written by %.0f, or digits get lost.
local HOLD, FENCE, CLAIMS, STONE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local CHANNEL = ARGV[#ARGV]
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
  return string.format('%.0f', number)
end

