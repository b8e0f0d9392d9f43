-- Ask this node for its vote, and propose a number. Answers {what, number, clock}:
--   {1, number}: voted and accepted; {2, largest number here}: voted, but the number was too small;
--   {3, number}: joined the hold of the same owner, which has this number;
--   {0, ask again in ms, ..., largest number here}: somebody else has it, and the claim stands in
--   line if it wanted to; next time it proposes more;
--   {-1, ms}: no vote for that many ms; {-2, max_ttl}: other clients count on another max_ttl;
--   {-3, 0}: this claim was withdrawn; {-6, 0}: other clients have another list of nodes.
-- ARGV 1 claim id and what people may see, 2 ttl, 3 mode, 4 number, 5 since when it waits,
--      6 where to ring ('' to stay out of the line), 7 how often it was tried, with this,
--      8 terms (run of the server as the client knows it, max_ttl, set), 9 '1' if the nodes never
--      lose data

-- The short way: the first try of an exclusive claim, nobody holds or waits, there is no tombstone, the
-- node votes on these terms, its clock was looked at a moment ago, and it knows a number, which is
-- above its floor. Everything else goes the long way.
if ARGV[3] == 'x' and ARGV[7] == '1' then
  local marker = redis.call('hmget', KEYS[1], 'votes', 'clock')
  if marker[1] == ARGV[8] and redis.call('exists', KEYS[2], KEYS[4]) == 0 then
    local time = redis.call('time')
    local clock, seen = time[1] * 1000000 + time[2], tonumber(marker[2])
    local before = tonumber(string.match(redis.call('get', KEYS[3]) or '', '^%d+'))
    if before and clock <= seen + 100000 and clock >= seen - 300000 then -- OFTEN, BACK
      local number, largest = tonumber(ARGV[4]), math.max(before, clock / 32 - 1875000) -- LEAD
      if number > largest and number <= math.max(before + 1, clock / 32 + 1875000) then
        local id, shown = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 33)
        local ends = string.format('%.0f', clock / 1000 + ARGV[2])
        local known = string.format('%.0f', math.max(clock, number * 32) / 1000 + 86400000) -- DAY
        redis.call('set', KEYS[3], ARGV[4] .. ' ' .. id .. ' ' .. shown, 'PXAT', known)
        redis.call('zadd', KEYS[2], ends, id)
        redis.call('pexpireat', KEYS[2], ends)
        return {1, number, clock}
      end
    end
  end
end

-- include node

-- include ready

local id, shown = string.sub(ARGV[1], 1, 32), string.sub(ARGV[1], 33)
local ttl, mode, number = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local hindered, by = hindrance(ARGV[8], ARGV[9] == '1')
if hindered < 0 then
  return {hindered, by, clock}
elseif buried(id) then
  return {-3, 0, clock}
end

-- Whether a writer has been waiting for longer than this reader.
local function overtakes()
  if mode ~= 's' then
    return false
  end
  for _, other in ipairs(redis.call('zrange', LINE, 0, 63)) do
    if other == id then
      return false
    elseif not is_reader(other) and not redis.call('zscore', HOLD, other) then
      return true
    end
  end
  return false
end

-- The number of the owner's hold, as far as this node knows it; false if no other claim is in it. A
-- claim that asks again is still a co-owner.
local function number_with_others()
  local raw, others = 0, false
  for _, one in ipairs(redis.call('zrange', HOLD, 0, -1)) do
    others = others or one ~= id
    raw = math.max(raw, tonumber(string.match(holder_facts(one) or '', '^%S+ (%d+)') or 0))
  end
  return others and raw
end

local mine = redis.call('zscore', HOLD, id)
local held = held_as()
if mine or not held or (held == mode and mode ~= 'x') then
  if mine or not overtakes() then
    local raw, what = 0, 2
    if held and string.sub(mode, 1, 1) == 'o' then
      local known = number_with_others()
      raw, what = known or 0, known and 3 or 2
    end
    if what == 2 then
      local accepted, largest = accept(id, number, shown)
      what, raw = accepted and 1 or 2, largest
    end
    -- Asked again after a lost answer: the full ttl from now on (S8).
    -- A number that was not accepted belongs to no hold: a co-owner that joins must not take it.
    local try = math.max(tonumber(ARGV[7]), mine and try_of(id) or 1)
    put(id, mode, prolonged(id, mine, ttl), what == 2 and 0 or raw, shown, text(try))
    keep()
    return {what, raw, clock}
  end
end

local retry = 1000
if ARGV[6] ~= '' then
  redis.call('zadd', LINE, 'NX', ARGV[5], id)
  redis.call('zadd', ALIVE, text(now + SILENCE), id)
  redis.call('hset', INFO, id, mode .. ' ' .. ARGV[6] .. ' ' .. shown)
  keep()
  -- Only the first two learn when the hold runs out: all of them would be a herd (L6).
  if held and redis.call('zrank', LINE, id) < 2 then
    local ends = tonumber(redis.call('zrange', HOLD, 0, 0, 'WITHSCORES')[2])
    retry = math.min(retry, ends - now + 1)
  end
end
return {0, retry, clock, tonumber(string.match(redis.call('get', FENCE) or '0', '^%d+'))}
