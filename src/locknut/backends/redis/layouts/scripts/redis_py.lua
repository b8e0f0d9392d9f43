-- redis-py's Lock: the hold is a string, the mark of its holder. It has no line and no number: the
-- number is ours, and grows for the holds that we give. It follows the rule of the own layout
-- (scripts/fence.lua); each claim's own number stands beside it, so the key need not outlive a hold.
local holder = redis.call('get', HOLD)

local function marked(mark)
  return holder == mark
end

local function taken()
  return holder
end

local function write(mark)
  if holder ~= mark then
    redis.call('set', HOLD, mark)
    holder = mark
  end
end

local function next_fence()
  local clock = math.floor((time[1] * 1000000 + time[2]) / 32)
  local raw = math.max(tonumber(redis.call('get', FENCE) or 0) + 1, clock)
  redis.call('set', FENCE, text(raw), 'PX', text(math.ceil((raw - clock) * 0.032) + 3600000))
  return raw
end

local function in_turn()
  return true
end

local function leave() end

local function stand() end

local function ring()
  redis.call('publish', CHANNEL, '0')
  -- A waiter of python-redis-lock sleeps on a list beside its key, and looks for nothing else. We do
  -- as it does itself: one element, for a second. If we may not write there, those waiters sleep on.
  local name = string.match(HOLD, '^lock:(.+)$')
  if name then
    local signal = 'lock-signal:' .. name
    redis.pcall('del', signal)
    redis.pcall('rpush', signal, '1')
    redis.pcall('pexpire', signal, '1000')
  end
end

-- The value of the key is what its holder proves itself with: it is not shown.
local function strangers()
  return holder and {{'?', 0, redis.call('pttl', HOLD), ''}} or {}
end

