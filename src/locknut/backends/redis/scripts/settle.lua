-- What every verb does once its short way does not fit: drop what has run out, then let in the waiters
-- that fit. A verb includes this file by its line "-- include settle", after keys and granting, and
-- calls settle() when its own work is done.

-- One look says most: a string is one holder, whose id it begins with; no key means no holder.
kind, holder = 'none', redis.pcall('getrange', HOLD, 0, 31)
if type(holder) == 'string' and holder ~= '' then
  kind = 'string'
elseif type(holder) == 'table' then
  kind = redis.call('type', HOLD)['ok']
  if kind == 'string' then
    redis.call('getrange', HOLD, 0, 31) -- we may not read it: this raises the error
  elseif kind ~= 'zset' then
    return redis.error_reply('WRONGTYPE the key of this lock holds something else: ' .. kind)
  end
  for _, id in ipairs(redis.call('zrangebyscore', HOLD, '-inf', now)) do
    redis.call('zrem', HOLD, id)
    redis.call('hdel', INFO, '=' .. id)
  end
  kind = redis.call('type', HOLD)['ok']
end

-- The number of a holder. An exclusive holder had the last grant there was.
local function raw_of(id)
  if kind == 'string' then
    return tonumber(redis.call('get', FENCE)) or next_fence(FENCE, time, redis.call('pttl', HOLD))
  end
  return tonumber(string.match(redis.call('hget', INFO, '=' .. id) or '', '^%S+ (%d+)')) or next_fence(FENCE, time, 0)
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

-- Whether a claim like this fits beside the holders, which are all of one mode.
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
  redis.call('zadd', HOLD, now + ttl, id)
  redis.call('hset', INFO, '=' .. id, mode .. ' ' .. text(raw) .. ' ' .. limit .. ' ' .. shown)
  kind = 'zset'
end

local function enter(id, mode, ttl, limit, shown)
  if mode == 'x' then
    return enter_alone(id, ttl, shown)
  end
  local raw
  if kind == 'zset' and string.sub(mode, 1, 1) == 'o' then
    raw = raw_of(redis.call('zrange', HOLD, 0, 0)[1]) -- an owner enters its own hold again
  else
    raw = next_fence(FENCE, time, 0) -- each holder's number stands in INFO
  end
  put(id, mode, ttl, raw, limit, time[1] .. string.sub(shown, 11))
  return raw
end

-- Grant to the first in line while they fit (L6): one writer, the readers up to the next writer, the
-- free permits. Stops at `me`, which is answered here and needs no message. Answers whether
-- anybody was let in.
local function let_in(me)
  local entered = false
  while kind ~= 'string' do -- an exclusive holder lets nobody in
    local id, mode, ttl, limit, reply_to, _, shown = first_in_line(me)
    if not id or id == me or not fits(mode, tonumber(limit)) then
      break
    end
    leave(id)
    ttl = math.min(GRANT, tonumber(ttl))
    tell(id, reply_to, enter(id, mode, ttl, limit, shown), ttl)
    entered = true
  end
  return entered
end

-- What every verb does for others. A claim that is let in beside other holders must not run out with
-- them: the key would take it along.
local function settle(me)
  if kind ~= 'string' then
    drop_dead()
  end
  if let_in(me) and kind == 'zset' then
    keep()
  end
end

-- The holder asks for its hold once more: at least the full ttl from now on, and the same number (S8).
-- Never less than is left: this may come late, after the hold was detached for longer.
local function again(id, ttl)
  local raw = raw_of(id)
  if kind == 'string' then
    if redis.call('pttl', HOLD) < ttl then
      redis.call('pexpire', HOLD, ttl)
    end
  else
    redis.call('zadd', HOLD, math.max(now + ttl, tonumber(redis.call('zscore', HOLD, id))), id)
    keep()
  end
  return raw
end

-- A late sending of this claim must find the door shut (L3).
local function bury(id, ttl)
  redis.call('zadd', ALIVE, now + ttl, '-' .. id)
end
