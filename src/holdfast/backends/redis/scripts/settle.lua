-- What every verb does once its short way does not fit: drop what has run out, then let in who can.
-- Put into a verb by its line "-- include settle"; the verb calls settle() when it has done its own.
--
-- KEYS 1 hold   a string (claim id and what people may see) for one plain exclusive holder, or
--               a sorted set (claim id -> expiry) for readers, co-owners and permits
--      2 fence  the number of the last grant
--      3 alive  sorted set: waiting claim id -> taken for dead at; '-' and id -> tombstone ends at
--      4 line   sorted set: waiting claim id -> place
--      5 info   hash: claim id -> what a waiter asked for; '=' and id -> what such a holder has
-- Modes: x exclusive, s shared, p permit, o and the owner's name for claims of one owner.
-- Times are milliseconds of this server's clock; numbers are written by %.0f, or digits get lost.
local HOLD, FENCE, ALIVE, LINE, INFO = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local GRANT = 3000 -- how long a grant lives that its owner has not confirmed yet
local SILENCE = 3000 -- a waiter not heard of for so long is dead; live ones ask every second
local DAY = 86400000

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
  return string.format('%.0f', number)
end

-- One look tells most: a string is one holder, whose id it begins with; nothing is nobody.
local kind, holder = 'none', redis.pcall('getrange', HOLD, 0, 31)
if type(holder) == 'string' and holder ~= '' then
  kind = 'string'
elseif type(holder) == 'table' then
  kind = redis.call('type', HOLD)['ok']
  if kind == 'string' then
    redis.call('getrange', HOLD, 0, 31) -- not allowed to read it: this time the error is told
  elseif kind ~= 'zset' then
    return redis.error_reply('WRONGTYPE the key of this lock holds something else: ' .. kind)
  end
  for _, id in ipairs(redis.call('zrangebyscore', HOLD, '-inf', text(now))) do
    redis.call('zrem', HOLD, id)
    redis.call('hdel', INFO, '=' .. id)
  end
  kind = redis.call('type', HOLD)['ok']
end
-- The next number. A missing fence starts at the clock, in steps of 32 us, and runs out a day after
-- it began: a lock is granted less often than every 32 us, so the clock is ahead by then.
local function next_fence()
  local raw = redis.call('incr', FENCE)
  if raw == 1 then
    raw = math.floor((time[1] * 1000000 + time[2]) / 32)
    redis.call('set', FENCE, text(raw), 'PX', text(DAY))
  end
  return raw
end

-- The number of who has it now. Alone, he had the last grant there was.
local function raw_of(id)
  if kind == 'string' then
    return tonumber(redis.call('get', FENCE)) or next_fence()
  end
  return tonumber(string.match(redis.call('hget', INFO, '=' .. id) or '', '^%S+ (%d+)')) or next_fence()
end

local function holds(id)
  if kind == 'string' then
    return holder == id
  end
  return kind == 'zset' and redis.call('zscore', HOLD, id)
end

local function buried(id)
  local ends = redis.call('zscore', ALIVE, '-' .. id)
  return ends and tonumber(ends) > now
end

-- Whether somebody with this wish fits beside those who hold: they are all of one mode.
local function fits(mode, limit)
  if kind == 'none' then
    return true
  elseif kind == 'string' or mode == 'x' then
    return false
  elseif mode == 'p' then
    return redis.call('zcard', HOLD) < limit
  end
  local one = redis.call('zrange', HOLD, 0, 0)[1]
  return string.match(redis.call('hget', INFO, '=' .. one) or '', '^%S+') == mode
end

local function put(id, mode, ttl, raw, limit, shown)
  redis.call('zadd', HOLD, text(now + ttl), id)
  redis.call('hset', INFO, '=' .. id, mode .. ' ' .. text(raw) .. ' ' .. limit .. ' ' .. shown)
  kind = 'zset'
end

-- `shown` is ten digits of seconds and what people may see: from here on, since now.
local function enter(id, mode, ttl, limit, shown)
  shown = time[1] .. string.sub(shown, 11)
  if mode == 'x' then
    redis.call('set', HOLD, id .. shown, 'PX', text(ttl))
    kind, holder = 'string', id
    return next_fence()
  end
  local raw
  if kind == 'zset' and string.sub(mode, 1, 1) == 'o' then
    raw = raw_of(redis.call('zrange', HOLD, 0, 0)[1]) -- an owner enters his own hold again
  else
    raw = next_fence()
  end
  put(id, mode, ttl, raw, limit, shown)
  return raw
end

local function leave(id)
  redis.call('zrem', LINE, id)
  redis.call('zrem', ALIVE, id)
  redis.call('hdel', INFO, id)
end

-- Whether the server refused, and not because the slot is on its way to another node.
local function denied(answer)
  return type(answer) == 'table' and answer['err'] and not string.find(answer['err'], 'non local', 1, true)
end

-- An inbox of its own for a waiter that pops (from one connection: L5), a channel for one that
-- listens: c its own, s and p (sharded or not) in this lock's slot. What nobody reads is gone with
-- the grant it speaks of. A message that cannot be left, because the slot is on its way to another
-- node, is one that was lost: the grant stands, and its owner finds it when it asks again.
local function tell(id, reply_to, raw, ttl)
  local message, kind_of, name = id .. text(raw), string.sub(reply_to, 1, 1), string.sub(reply_to, 2)
  if kind_of == 'c' then
    redis.call('publish', name, message)
  elseif kind_of == 'l' then
    local inbox = HOLD .. ':inbox:' .. string.sub(id, 1, 16) .. name
    if denied(redis.pcall('rpush', inbox, message)) then
      redis.call('rpush', inbox, message) -- this time the error is told
    end
    redis.pcall('pexpire', inbox, text(ttl))
  elseif kind_of == 's' then
    if denied(redis.pcall('spublish', HOLD .. ':told:' .. name, message)) then
      redis.call('spublish', HOLD .. ':told:' .. name, message)
    end
  else
    redis.call('publish', HOLD .. ':told:' .. name, message)
  end
end

-- Waiters that fell silent, and tombstones that nobody needs any more.
local function drop_dead()
  for _, id in ipairs(redis.call('zrangebyscore', ALIVE, '-inf', text(now))) do
    leave(id)
  end
end

-- Nothing stays longer than the last thing in it that runs out, and a little. To be called when
-- something was added; what was only taken out needs it not.
local function keep(least)
  local last = tonumber(redis.call('zrange', ALIVE, -1, -1, 'WITHSCORES')[2] or 0)
  last = math.max(last, least or 0)
  if last > 0 then
    redis.call('pexpireat', ALIVE, text(last + 1000))
    redis.call('pexpireat', LINE, text(last + 1000))
  end
  if kind == 'zset' then
    local ends = tonumber(redis.call('zrange', HOLD, -1, -1, 'WITHSCORES')[2])
    redis.call('pexpireat', HOLD, text(ends))
    last = math.max(last, ends)
    -- Before 7.2 the clock goes on while a script runs: all may have run out in this very step.
    kind = redis.call('exists', HOLD) == 1 and 'zset' or 'none'
  end
  redis.call('pexpireat', INFO, text(last + 1000)) -- never before the line: it tells who stands there
end

-- Grant to the first in line while they fit (L6): one writer, the readers up to the next writer, the
-- free permits. Stops at `me`, who is here to be answered and needs no message. Answers whether
-- anybody was let in.
local function let_in(me)
  local entered = false
  while kind ~= 'string' do -- whoever is alone lets nobody in
    local id = redis.call('zrange', LINE, 0, 0)[1]
    if not id or id == me then
      break
    end
    local wish = redis.call('hget', INFO, id) or ''
    local mode, ttl, limit, reply_to, shown = string.match(wish, '^(%S+) (%d+) (%d+) (%S+) (.*)$')
    if mode and not fits(mode, tonumber(limit)) then
      break
    end
    leave(id)
    if mode then
      ttl = math.min(GRANT, tonumber(ttl))
      tell(id, reply_to, enter(id, mode, ttl, limit, shown), ttl)
      entered = true
    end
  end
  return entered
end

-- What every verb does for others. Who is let in among those that share must not run out with them:
-- the key would take him along.
local function settle(me)
  if kind ~= 'string' then
    drop_dead()
  end
  if let_in(me) and kind == 'zset' then
    keep()
  end
end

-- Who holds it asks for it once more: the full ttl from now on, and the same number (S8).
local function again(id, ttl)
  local raw = raw_of(id)
  if kind == 'string' then
    redis.call('pexpire', HOLD, text(ttl))
  else
    redis.call('zadd', HOLD, text(now + ttl), id)
    keep()
  end
  return raw
end

-- A late sending of this claim must find the door shut (L3).
local function bury(id, ttl)
  redis.call('zadd', ALIVE, text(now + ttl), '-' .. id)
end
