-- redis-py's Lock: the hold is a string, the mark of its holder. It has no line and no number: the
-- number is ours, and grows for the holds that we give; it begins at the clock, in steps of 32 us,
-- and runs out a day after it began, when the clock is ahead of it.
local DAY = 86400000
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
  local raw = redis.call('incr', FENCE)
  if raw == 1 then
    raw = math.floor((time[1] * 1000000 + time[2]) / 32)
    redis.call('set', FENCE, text(raw), 'PX', DAY)
  end
  return raw
end

local function in_turn()
  return true
end

local function leave() end

local function stand() end

local function ring()
  redis.call('publish', CHANNEL, '0')
end

-- What stands in the key is what its holder proves himself with: it is not shown.
local function strangers()
  return holder and {{'?', 0, redis.call('pttl', HOLD), ''}} or {}
end

