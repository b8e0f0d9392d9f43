-- Whether this node may vote (quarantine), and which numbers it may accept (fences).
-- A verb includes this file by its line "-- include ready", after "-- include node".
--
-- The marker says: run (of the server process), history (of its data: the replication id), set (which
-- list of nodes its clients have), max_ttl; clock: the largest that was seen, in microseconds; jumped:
-- the clock was set back, and nobody has asked since; began: when the quarantine began; floor: numbers
-- are above it; votes: the terms (run, max_ttl and set) on which it votes, only if it does. And,
-- during a quarantine, '@' and a machine: what that machine's own clock showed when it first asked, in
-- milliseconds.
local LEAD = 60000000 / 32 -- a number may be this far ahead of the clock: 60 s, in steps of 32 us

-- How long a vote that this node has forgotten may be counted on, by a clock that runs 1 % wrong.
local function wait_for(max_ttl)
  return max_ttl * 1.02
end

local function floor_at(microseconds)
  return text(math.floor(microseconds / 32) + LEAD)
end

-- From now on it votes, for clients with this list of nodes. It does not know what it has forgotten, so
-- its numbers begin above all that it can have accepted: by its own clock, and by the time that a
-- majority of the nodes has, if a client said it.
local function let_vote(set, majority_time)
  local run, history, max_ttl = unpack(redis.call('hmget', MARKER, 'run', 'history', 'max_ttl'))
  redis.call('del', MARKER) -- and with it what the watching machines said
  redis.call('hset', MARKER, 'run', run, 'history', history, 'set', set, 'max_ttl', max_ttl,
    'clock', text(clock), 'floor', floor_at(math.max(clock, majority_time)),
    'votes', run .. ':' .. max_ttl .. ':' .. set)
end

-- A node that lost its data may have voted for somebody it has forgotten. It must not vote until the
-- longest ttl in use has passed. It does not know either when it lost them, neither by its uptime (a
-- promoted replica, or a server that was swapped in, has been up for long) nor by its own clock alone
-- (which may be behind after a boot, and be set right later): see watch.lua. It takes the set that it
-- belongs to from its data, if it is there: a client may be mistaken, and is refused by the others.
local function begin(max_ttl, set)
  redis.call('del', MARKER)
  redis.call('hset', MARKER, 'run', reported('server', 'run_id'), 'history', reported('replication', 'master_replid') or '',
    'max_ttl', text(max_ttl), 'clock', text(clock), 'began', text(now), 'floor', floor_at(clock))
  if set then
    redis.call('hset', MARKER, 'set', set)
  end
end

-- What keeps this node from voting on these terms: 0 for nothing; -1 and for how many milliseconds at
-- least; -2 and the max_ttl of others; -6: others have another list of nodes.
local function hindrance(terms, trusted)
  local run, max_ttl, set = string.match(terms, '^(.-):(%d+):(.*)$')
  max_ttl = tonumber(max_ttl)
  local marker = redis.call('hmget', MARKER, 'run', 'set', 'max_ttl', 'votes', 'began', 'jumped')
  local same = marker[1] and (marker[1] == run or marker[1] == reported('server', 'run_id'))
  local other = tonumber(marker[3])
  if marker[2] and marker[2] ~= set then
    return -6, 0
  elseif other and (other > max_ttl or (same and other ~= max_ttl)) then
    return -2, other
  elseif not same then
    begin(max_ttl, marker[2])
    if trusted and not marker[6] then
      let_vote(set, 0)
    end
    marker = redis.call('hmget', MARKER, 'run', 'set', 'max_ttl', 'votes', 'began')
  end
  if marker[4] then
    return 0, 0
  end
  return -1, math.max(1, tonumber(marker[5]) + wait_for(max_ttl) - now)
end

-- Whether others have another list of nodes than a client with these terms.
local function of_another_set(terms)
  local set = redis.call('hget', MARKER, 'set')
  return set and set ~= string.match(terms, '^.-:%d+:(.*)$')
end

-- Take a number if it is larger than all before and not absurd. Answers whether, and the largest now.
-- One that is too small is answered with the clock, if that is more: for a minute from now on a number
-- above it is taken.
local function accept(id, number, shown)
  local stored, by = string.match(redis.call('get', FENCE) or '', '^(%d+) (%S+)')
  local steps = math.floor(clock / 32)
  local least = math.max(tonumber(stored or 0), tonumber(redis.call('hget', MARKER, 'floor') or 0))
  if number == least and by == id then
    return true, least
  end
  if number <= math.max(least, steps - LEAD) or number > math.max(steps + LEAD, least + 1) then
    return false, math.max(least, steps)
  end
  redis.call('set', FENCE, text(number) .. ' ' .. id .. ' ' .. shown, 'PXAT', remembered(number))
  return true, number
end
