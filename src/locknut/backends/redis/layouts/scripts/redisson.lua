-- Redisson's RLock, RFencedLock and fair lock: the hold is a hash, mark -> how often it was entered.
-- KEYS 2 is the number of RFencedLock, 5 the list of waiters for a fair lock, by their marks,
-- and 6 the sorted set of when each of them counts as gone.
local QUEUE, GONE = KEYS[5], KEYS[6]
local ALLOWANCE = 5000 -- a waiter of ours silent for this long is gone; live ones ask every second
local THEIRS = 300000 -- the allowance of a Java waiter, unless it has another

local function marked(mark)
  return redis.call('hexists', HOLD, mark) == 1
end

local function taken()
  return redis.call('hlen', HOLD) > 0
end

local function write(mark, count)
  redis.call('hset', HOLD, mark, count)
end

local function next_fence()
  return redis.call('incr', FENCE)
end

local function first()
  return redis.call('lindex', QUEUE, 0)
end

local function drop_the_gone()
  local head, dropped = first(), false
  while head and tonumber(redis.call('zscore', GONE, head) or 0) <= now do
    redis.call('zrem', GONE, head)
    redis.call('lpop', QUEUE)
    head, dropped = first(), true
  end
  return dropped
end

-- Whether this claim may take a free lock: with fair=True only in its turn.
local function in_turn(mark, fair)
  if not fair then
    return true
  end
  local dropped = drop_the_gone()
  local head = first()
  if dropped and head and head ~= mark then
    redis.call('publish', CHANNEL .. ':' .. head, '0') -- it sleeps, and the lock is free
  end
  return not head or head == mark
end

local function leave(mark)
  redis.call('zrem', GONE, mark)
  redis.call('lrem', QUEUE, 0, mark)
end

-- Stand at the end of the queue, once; asking again shows that we are alive. A Java waiter that gets in
-- before us takes its allowance out of our time, so behind it we count as gone that much later. Behind
-- a waiter of ours we count as gone when it does, so many dead ones cost no more than one (L6).
local function stand(mark)
  local score = tonumber(redis.call('zscore', GONE, mark) or 0)
  if score == 0 then
    local last = redis.call('lindex', QUEUE, -1)
    if last then
      local ours = string.sub(last, -2) == ':0'
      score = tonumber(redis.call('zscore', GONE, last) or 0) + (ours and 0 or THEIRS)
    end
    redis.call('rpush', QUEUE, mark)
  end
  local least = now + ALLOWANCE
  redis.call('zadd', GONE, text(first() == mark and least or math.max(score, least)), mark)
end

-- Waiters for a plain lock listen to the channel; of a queue only the first gets a message.
local function ring()
  redis.call('publish', CHANNEL, '0')
  drop_the_gone()
  local head = first()
  if head then
    redis.call('publish', CHANNEL .. ':' .. head, '0')
  end
end

-- Holders that are not ours, by their marks; a hash that is too large for a lock shows none.
local function strangers()
  local left, found = redis.call('pttl', HOLD), {}
  if redis.call('hlen', HOLD) > 16 then
    return {{'?', 0, left, ''}}
  end
  for _, field in ipairs(redis.call('hkeys', HOLD)) do
    if field ~= 'mode' then
      found[#found + 1] = {'?', 0, left, field}
    end
  end
  return found
end

