-- Who holds and who waits, for people: no claim id is told. With 'break', holds are broken.
-- Who listens hears at once that his hold was broken; its id is worth nothing from then on.
-- Answers {holders, waiters}: {mode, number, ms left, limit, shown} and {mode, limit, shown}.
-- ARGV 1 only this number is broken ('' for any), 2 'break', 'holders' (without the line) or ''

-- include keys
-- include fence
-- include granting
-- include settle

local breaking = ARGV[2] == 'break'
drop_dead()
if not breaking then
  settle()
end
local holders, waiters = {}, {}

local function note(mode, raw, left, limit, shown, id)
  if breaking and (ARGV[1] == '' or ARGV[1] == text(raw)) then
    if string.match(id, '^%x+$') then -- the key may hold a stranger's text, which is not to be told
      redis.call('publish', 'locknut:broken', id)
    end
    if kind == 'string' then
      redis.call('del', HOLD)
    else
      redis.call('zrem', HOLD, id)
      redis.call('hdel', INFO, '=' .. id)
    end
  elseif breaking then
    return
  end
  holders[#holders + 1] = {mode, raw, left, tonumber(limit), shown}
end

if kind == 'string' then
  local raw = tonumber(redis.call('get', FENCE) or 0)
  note('x', raw, redis.call('pttl', HOLD), 1, string.sub(redis.call('get', HOLD), 33), holder)
elseif kind == 'zset' then
  local all = redis.call('zrange', HOLD, 0, -1, 'WITHSCORES')
  for at = 1, #all, 2 do
    local wish = redis.call('hget', INFO, '=' .. all[at]) or ''
    local mode, raw, limit, shown = string.match(wish, '^(%S+) (%d+) (%d+) (.*)$')
    note(mode or '?', tonumber(raw or 0), tonumber(all[at + 1]) - now, limit or 1, shown or '', all[at])
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
