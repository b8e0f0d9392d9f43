-- Who holds and who waits, for people: no claim id is shown. With 'break', holds are broken.
-- A holder that listens hears at once that its hold was broken; the claim id is worth nothing from then
-- on. The note to the holder decides nothing, and nothing fails without it. It is removed when the hold
-- would have run out, and after a day at the latest.
-- Answers {holders, waiters}: {mode, number, ms left, limit, shown} and {mode, limit, shown}.
-- ARGV 1 only this number is broken ('' for any), 2 'break', 'holders' (without the line) or '',
--      3 a note to the holder, or ''

-- include keys
-- include fence
-- include granting
-- include settle

local breaking, why = ARGV[2] == 'break', ARGV[3] or ''
drop_dead()
if not breaking then
  settle()
end
local holders, waiters = {}, {}

local function meet(mode, raw, left, limit, shown, id)
  if breaking and (ARGV[1] == '' or ARGV[1] == text(raw)) then
    local known = string.match(id, '^%x+$') -- the key may hold a stranger's text, which must not be shown
    if known and why ~= '' then
      redis.pcall('publish', 'locknut:broken', id .. ' ' .. why) -- older clients wait for the id alone
    end
    if known then
      redis.call('publish', 'locknut:broken', id)
    end
    if kind == 'string' then
      redis.call('del', HOLD)
    else
      redis.call('zrem', HOLD, id)
      redis.call('hdel', INFO, '=' .. id)
    end
    if known and why ~= '' and left > 0 then
      redis.pcall('set', HOLD .. ':broken:' .. string.sub(id, 1, 16), why, 'PX', math.min(left, 86400000))
    end
  elseif breaking then
    return
  end
  holders[#holders + 1] = {mode, raw, left, tonumber(limit), shown}
end

if kind == 'string' then
  local raw = tonumber(redis.call('get', FENCE) or 0)
  meet('x', raw, redis.call('pttl', HOLD), 1, string.sub(redis.call('get', HOLD), 33), holder)
elseif kind == 'zset' then
  local all = redis.call('zrange', HOLD, 0, -1, 'WITHSCORES')
  for at = 1, #all, 2 do
    local wish = redis.call('hget', INFO, '=' .. all[at]) or ''
    local mode, raw, limit, shown = string.match(wish, '^(%S+) (%d+) (%d+) (.*)$')
    meet(mode or '?', tonumber(raw or 0), tonumber(all[at + 1]) - now, limit or 1, shown or '', all[at])
  end
end
if breaking then
  kind = redis.call('type', HOLD)['ok']
  settle()
  keep()
end
for _, id in ipairs(ARGV[2] == 'holders' and {} or redis.call('zrange', LINE, 0, -1)) do
  local wish = redis.call('hget', INFO, id) or ''
  local mode, limit, client, shown = string.match(wish, '^(%S+) %d+ (%d+) %S+ (%S+) (.*)$')
  if mode and alive(client) then
    waiters[#waiters + 1] = {mode, tonumber(limit), shown}
  end
end
return {holders, waiters}
