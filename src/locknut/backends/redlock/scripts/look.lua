-- Who holds and who waits here, for people: no claim id is shown. With ARGV[2] given, holds are broken.
-- Answers {holders, waiters, clock}: {handle, mode, number, ms left, shown} and {handle, mode, shown}.
-- ARGV 1 only the hold with this handle is broken ('' for any), 2 'break' or '', 3 a note to the holder
--      or '': it decides nothing, and goes when the hold would have run out

-- include node

local breaking, why = ARGV[2] == 'break', ARGV[3] or ''
local holders, waiters = {}, {}
local all = redis.call('zrange', HOLD, 0, -1, 'WITHSCORES')
local inside = {}
for at = 1, #all, 2 do
  local id = all[at]
  inside[id] = true
  local mode, raw, shown = string.match(holder_facts(id) or '', '^(%S+) (%d+) (.*)$')
  if not breaking or ARGV[1] == '' or ARGV[1] == text(handle(id)) then
    holders[#holders + 1] = {handle(id), mode or '?', tonumber(raw or 0), tonumber(all[at + 1]) - now, shown or ''}
    if breaking then
      redis.call('zrem', HOLD, id)
      redis.call('hdel', INFO, '=' .. id, '#' .. id)
      leave(id)
      if why ~= '' then
        redis.pcall('set', note_to(id), why, 'PX', text(math.min(tonumber(all[at + 1]) - now, DAY)))
      end
    end
  end
end
if breaking and #holders > 0 then
  ring()
  keep()
end
for _, id in ipairs(redis.call('zrange', LINE, 0, -1)) do
  if not inside[id] then
    local mode, shown = string.match(redis.call('hget', INFO, id) or '', '^(%S+) %S+ (.*)$')
    waiters[#waiters + 1] = {handle(id), mode or '?', shown or ''}
  end
end
return {holders, waiters, clock}
