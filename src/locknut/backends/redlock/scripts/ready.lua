-- Whether this node may vote (quarantine), and which numbers it may accept (fences).
-- Put into a verb by its line "-- include ready", after "-- include node".
local LEAD = 60000000 / 32 -- a number may be this far ahead of the clock: 60 s, in steps of 32 us

local function told(section, name)
  return string.match(redis.call('info', section), name .. ':([^\r\n]+)')
end

-- A node that lost its data may have voted for somebody it has forgotten. It must not vote until
-- the longest ttl in use has passed since: since its start, or, if somebody flushed it or it threw
-- keys away, since this was noticed. What it lost it cannot tell, so its numbers begin above all that
-- it can have accepted.
local function begin(max_ttl, trusted)
  local uptime = tonumber(told('server', 'uptime_in_seconds')) * 1000
  local stats = redis.call('info', 'commandstats')
  local calm = tonumber(told('stats', 'evicted_keys')) == 0
    and not string.find(stats, 'cmdstat_flush', 1, true)
    and not string.find(stats, 'cmdstat_swapdb', 1, true)
  local wait = max_ttl * 1.02 + 1000 -- uptime is in whole seconds
  if calm then
    wait = math.max(0, wait - uptime)
  end
  if trusted then
    wait = 0
  end
  redis.call('hset', MARKER, 'run', told('server', 'run_id'), 'max_ttl', text(max_ttl),
    'ready', text(now + wait), 'floor', text(math.floor(clock / 32) + LEAD))
end

-- Milliseconds until this node votes; 0 when it does; or false and the max_ttl it was told before.
local function quarantine(run, max_ttl, trusted)
  local marker = redis.call('hmget', MARKER, 'run', 'max_ttl', 'ready')
  if marker[1] ~= run and (not marker[1] or marker[1] ~= told('server', 'run_id')) then
    if marker[2] and tonumber(marker[2]) > max_ttl then
      return false, tonumber(marker[2])
    end
    begin(max_ttl, trusted)
    marker = redis.call('hmget', MARKER, 'run', 'max_ttl', 'ready')
  end
  if tonumber(marker[2]) ~= max_ttl then
    return false, tonumber(marker[2])
  end
  return math.max(0, tonumber(marker[3]) - now)
end

-- Take a number if it is larger than all before and not absurd. Answers whether, and the largest now.
local function accept(id, number, terms, shown)
  local stored, by = string.match(redis.call('get', FENCE) or '', '^(%d+) (%S+)')
  local steps = math.floor(clock / 32)
  local largest = math.max(tonumber(stored or 0), steps - LEAD,
    tonumber(redis.call('hget', MARKER, 'floor') or 0))
  if number == largest and by == id then
    return true, largest
  end
  if number <= largest or number > math.max(steps + LEAD, largest + 1) then
    return false, largest
  end
  redis.call('set', FENCE, text(number) .. ' ' .. id .. ' ' .. terms .. ' ' .. shown, 'PX', text(DAY))
  return true, number
end
