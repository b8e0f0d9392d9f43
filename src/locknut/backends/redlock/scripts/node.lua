-- What every verb begins with on a node of Redlock: the time, and what has run out is dropped. A verb
-- includes this file by its line "-- include node".
--
-- KEYS 1 marker  hash: who this node is, see ready.lua
--      2 hold    sorted set: claim id -> expiry
--      3 fence   the largest number accepted here, by which claim, and what people may see of it
--      4 alive   sorted set: waiting claim id -> taken for dead at; '-' and id -> tombstone ends at
--      5 line    sorted set: waiting claim id -> since when it waits, by its own clock
--      6 info    hash: '=' and id -> what a holder has (one that came the short way has it with the
--                number); '#' and id -> by which of its tries (none: the first); id -> what a waiter
--                asked for
-- Modes: x exclusive, s shared, o and the owner's name for claims of one owner.
-- Times are milliseconds of this server's clock. Every answer ends with that clock in microseconds.
local MARKER, HOLD, FENCE, ALIVE, LINE, INFO = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local SILENCE = 3000 -- a waiter that was silent for this long is dead; live ones ask every second
local DAY = 86400000
local GRANTED = '1000000000' -- the try of a granted hold: giving a try back does not touch it
local DETACHED = '2000000000' -- that of a detached hold: a late command must not shorten it
local OFTEN = 100000 -- microseconds: the largest clock seen is noted this often
local BACK = 300000 -- a clock that is set back by less harms nobody: nodes keep holds for longer

local time = redis.call('time')
local clock = time[1] * 1000000 + time[2]
local now = math.floor(clock / 1000)

local function text(number)
  return string.format('%.0f', number)
end

-- What the server itself says in INFO.
local function reported(section, name)
  return string.match(redis.call('info', section), name .. ':([^\r\n]+)')
end

-- Now and then the node looks whether its keys can still be what they were. A clock that is behind
-- what it was had jumped ahead, and keys ran out early then. Another history means that the server
-- took over the data of another one (REPLICAOF). Then the node no longer knows what it has voted for,
-- and the next client that asks for its vote begins a quarantine.
local known = redis.call('hmget', MARKER, 'run', 'clock', 'history')
local seen = tonumber(known[2] or clock)
if known[1] and (clock > seen + OFTEN or clock < seen - BACK) then
  if clock < seen - BACK then
    redis.call('hset', MARKER, 'jumped', '1') -- keys ran out early also where no data are ever lost
  end
  if clock < seen - BACK or known[3] ~= reported('replication', 'master_replid') then
    redis.call('hdel', MARKER, 'run', 'votes')
  end
  redis.call('hset', MARKER, 'clock', text(clock))
end

for _, id in ipairs(redis.call('zrangebyscore', HOLD, '-inf', text(now))) do
  redis.call('zrem', HOLD, id)
  redis.call('hdel', INFO, '=' .. id, '#' .. id)
end
for _, id in ipairs(redis.call('zrangebyscore', ALIVE, '-inf', text(now))) do
  redis.call('zrem', ALIVE, id)
  redis.call('zrem', LINE, id)
  redis.call('hdel', INFO, id)
end

-- The key of the note that says who broke a hold, and why.
local function note_to(id)
  return HOLD .. ':broken:' .. string.sub(id, 1, 16)
end

-- What a claim is called where its id must not be shown: a number, the same on all nodes.
local function handle(id)
  return tonumber(string.sub(redis.sha1hex(id), 1, 12), 16)
end

local function buried(id)
  return redis.call('zscore', ALIVE, '-' .. id)
end

-- Mode, number and what people may see of a holder.
local function holder_facts(id)
  local facts = redis.call('hget', INFO, '=' .. id)
  if facts then
    return facts
  end
  local number, by, shown = string.match(redis.call('get', FENCE) or '', '^(%d+) (%S+) (.*)$')
  return by == id and 'x ' .. number .. ' ' .. shown
end

-- The mode of the holders, which is the same for all; false if nobody holds.
local function held_as()
  local one = redis.call('zrange', HOLD, 0, 0)[1]
  return one and (string.match(holder_facts(one) or '', '^%S+') or 'x')
end

local function is_reader(id)
  return string.sub(redis.call('hget', INFO, id) or '', 1, 2) == 's '
end

local function put(id, mode, ttl, raw, shown, try)
  redis.call('zadd', HOLD, text(now + ttl), id)
  redis.call('hset', INFO, '=' .. id, mode .. ' ' .. text(raw) .. ' ' .. shown, '#' .. id, try)
end

-- By which of its tries a claim has this node's vote.
local function try_of(id)
  return tonumber(redis.call('hget', INFO, '#' .. id) or 1)
end

-- How long a hold (which ends at `ends`, if it is there) lives on when it is asked for once more: for
-- the ttl; but a detached one for no less than it has left. A renewal, or a vote, may come late.
local function prolonged(id, ends, ttl)
  if ends and try_of(id) == tonumber(DETACHED) then
    return math.max(ttl, tonumber(ends) - now)
  end
  return ttl
end

local function leave(id)
  redis.call('zrem', LINE, id)
  redis.call('zrem', ALIVE, id)
  redis.call('hdel', INFO, id)
end

-- Ring the waiters that could come in now: the first in line, or the readers up to the next writer.
-- This is not a grant: each node would grant to its own first waiter, and split the vote (L8).
local function ring()
  local mode = held_as()
  if mode and mode ~= 's' then
    return
  end
  for at, id in ipairs(redis.call('zrange', LINE, 0, 63)) do
    local reader = is_reader(id)
    if not reader and (mode or at > 1) then
      return
    end
    local channel = string.match(redis.call('hget', INFO, id) or '', '^%S+ (%S+)')
    if channel then
      redis.call('publish', channel, id)
    end
    if not reader then
      return
    end
  end
end

-- From now on the hold of this claim is a shared one, so that readers may come in beside it.
local function turn_shared(id)
  local raw, shown = string.match(holder_facts(id) or 's 0 ', '^%S+ (%d+) (.*)$')
  redis.call('hset', INFO, '=' .. id, 's ' .. raw .. ' ' .. shown)
  leave(id)
  ring()
end

-- Until when a number has to be remembered, in milliseconds: it may be ahead of the clock.
local function remembered(number)
  return text(math.max(now, math.floor(number * 32 / 1000)) + DAY)
end

-- No key stays longer than the last thing in it that runs out.
local function keep()
  local last = tonumber(redis.call('zrange', ALIVE, -1, -1, 'WITHSCORES')[2] or 0)
  if last > 0 then
    redis.call('pexpireat', ALIVE, text(last + 1000))
    redis.call('pexpireat', LINE, text(last + 1000))
  end
  local ends = tonumber(redis.call('zrange', HOLD, -1, -1, 'WITHSCORES')[2] or 0)
  if ends > 0 then
    redis.call('pexpireat', HOLD, text(ends))
  end
  if math.max(last, ends) > 0 then
    redis.call('pexpireat', INFO, text(math.max(last, ends) + 1000))
  end
end

local function bury(id, ttl)
  redis.call('zadd', ALIVE, text(now + ttl), '-' .. id)
end
