-- What a stream of history has, from the last ARGV[1] milliseconds (or all of it, if that is empty),
-- behind the time now in milliseconds. The name of an entry begins with the time of its writing.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local from = '-'
if ARGV[1] ~= '' then
  from = string.format('%.0f', math.max(0, now - ARGV[1]))
end
return {string.format('%.0f', now), redis.call('xrange', KEYS[1], from, '+')}
