-- Who holds and who waits, of many locks in one go, for people who list them: as look.lua says it of
-- one, but nothing is changed, and what has run out is left out.
-- Answers {holders, waiters} for each lock: {handle, mode, number, ms left, shown} and {handle, mode, shown};
-- false where a key is of another kind, so it is no lock. It stops after about MOST holders and waiters,
-- so that votes do not wait for long: then the answer is about the first locks only, at least one.
-- KEYS hold, fence, alive, line and info of each lock in turn: see node.lua

local MOST = 500
local time = redis.call('time')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)

local function handle(id)
  return tonumber(string.sub(redis.sha1hex(id), 1, 12), 16)
end

local function facts(id, fence, info)
  local known = redis.call('hget', info, '=' .. id)
  if known then
    return string.match(known, '^(%S+) (%d+) (.*)$')
  end
  local number, by, shown = string.match(redis.call('get', fence) or '', '^(%d+) (%S+) (.*)$')
  if by == id then
    return 'x', number, shown
  end
end

local function seen(hold, fence, alive, line, info)
  local holders, waiters, inside = {}, {}, {}
  local all = redis.call('zrange', hold, 0, -1, 'WITHSCORES')
  for at = 1, #all, 2 do
    local id, left = all[at], tonumber(all[at + 1]) - now
    if left > 0 then
      inside[id] = true
      local mode, raw, shown = facts(id, fence, info)
      holders[#holders + 1] = {handle(id), mode or '?', tonumber(raw or 0), left, shown or ''}
    end
  end
  for _, id in ipairs(redis.call('zrange', line, 0, -1)) do
    local dies = redis.call('zscore', alive, id)
    if not inside[id] and not (dies and tonumber(dies) <= now) then
      local mode, shown = string.match(redis.call('hget', info, id) or '', '^(%S+) %S+ (.*)$')
      waiters[#waiters + 1] = {handle(id), mode or '?', shown or ''}
    end
  end
  return {holders, waiters}
end

local answer, count = {}, 0
for at = 1, #KEYS, 5 do
  local well, view = pcall(seen, KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4])
  answer[#answer + 1] = well and view
  count = count + (well and #view[1] + #view[2] or 1)
  if count >= MOST then
    break
  end
end
return answer
