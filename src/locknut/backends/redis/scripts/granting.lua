-- How a lock goes to one exclusive holder, and to the first in line without becoming free.
local function text(number)
  return string.format('%.0f', number)
end

-- `shown` is ten digits of seconds and what people may see: from here on, since now.
local function enter_alone(id, ttl, shown)
  redis.call('set', HOLD, id .. time[1] .. string.sub(shown, 11), 'PX', ttl)
  kind, holder = 'string', id
  return next_fence(FENCE, time, ttl)
end

-- Take a claim out of the line. The clients are forgotten with the last waiter.
local function leave(id)
  redis.call('zrem', LINE, id)
  redis.call('hdel', INFO, id)
  if redis.call('exists', LINE) == 0 then
    for _, member in ipairs(redis.call('zrange', ALIVE, 0, -1)) do
      if string.byte(member) ~= 45 then -- not a tombstone
        redis.call('zrem', ALIVE, member)
      end
    end
  end
end

-- Drop the clients that fell silent, and the tombstones that nobody needs any more.
local function drop_dead()
  for _, member in ipairs(redis.call('zrangebyscore', ALIVE, '-inf', now)) do
    redis.call('zrem', ALIVE, member)
  end
end

-- Whether this client was heard of in time. A time in the future is from before the clock was set
-- back. Then this client has to be heard of again, and so have all others from before that moment:
-- otherwise each dead one would be let in when it is first, for as long as a grant lives.
local function alive(client)
  local silent_at = tonumber(redis.call('zscore', ALIVE, client) or 0)
  if silent_at > now + SILENCE then
    for _, member in ipairs(redis.call('zrangebyscore', ALIVE, now + SILENCE, '+inf')) do
      if string.byte(member) ~= 45 then -- not a tombstone
        redis.call('zadd', ALIVE, now + SILENCE, member)
      end
    end
  end
  return silent_at > now
end

-- The first in line, and what it asked for: mode, ttl, limit, where its message goes, its client, what
-- is shown. Claims of dead clients are dropped on the way; `me` is here, so it is alive.
local function first_in_line(me)
  local id = redis.call('zrange', LINE, 0, 0)[1]
  while id do
    local wish = redis.call('hget', INFO, id) or ''
    local mode, ttl, limit, reply_to, client, shown =
      string.match(wish, '^(%S+) (%d+) (%d+) (%S+) (%S+) (.*)$')
    if id == me or mode and alive(client) then
      return id, mode, ttl, limit, reply_to, client, shown
    end
    leave(id)
    id = redis.call('zrange', LINE, 0, 0)[1]
  end
end

-- Whether the server refused, and not because the slot is on its way to another node.
local function denied(answer)
  return type(answer) == 'table' and answer['err'] and not string.find(answer['err'], 'non local', 1, true)
end

-- Send the message of a grant: into an inbox (l, b) for a waiter that pops (from one connection: L5),
-- or to a channel for one that listens: c is its own, s and p (sharded or not) are in this lock's slot.
-- A message that nobody reads goes with the grant it is about. One that cannot be sent, because the
-- slot is on its way to another node, is lost: the grant stands, and its owner finds it when it asks
-- again.
local function tell(id, reply_to, raw, ttl)
  local message, kind_of, name = id .. text(raw), string.sub(reply_to, 1, 1), string.sub(reply_to, 2)
  if kind_of == 'c' then
    redis.call('publish', name, message)
  elseif kind_of == 'l' or kind_of == 'b' then
    local inbox = HOLD .. ':inbox:' .. string.sub(id, 1, 16) .. name
    if denied(redis.pcall('rpush', inbox, message)) then
      redis.call('rpush', inbox, message) -- again, so that the error is raised
    end
    redis.pcall('pexpire', inbox, ttl)
  elseif kind_of == 's' then
    if denied(redis.pcall('spublish', HOLD .. ':told:' .. name, message)) then
      redis.call('spublish', HOLD .. ':told:' .. name, message)
    end
  else
    redis.call('publish', HOLD .. ':told:' .. name, message)
  end
end
