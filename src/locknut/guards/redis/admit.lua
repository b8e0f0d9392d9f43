-- Which holder may go on: only the one whose fence is the newest that entered.
-- KEYS 1 the record of the newest fence; ARGV 1 the fence, 2 'enter' or 'step'
-- Fences are compared as texts of digits: a number of Lua is not exact for long ones (S10).
local newest = redis.call('get', KEYS[1]) or '0'
if not string.match(newest, '^%d+$') then
  return redis.error_reply('WRONGTYPE the record of a guard holds something else')
end
local older = #newest < #ARGV[1] or (#newest == #ARGV[1] and newest < ARGV[1])
-- A step needs its own record: without it others may have entered and been forgotten (FLUSHALL).
if newest ~= ARGV[1] and not (older and ARGV[2] == 'enter') then
  return {0, newest}
end
if older then
  redis.call('set', KEYS[1], ARGV[1])
end
