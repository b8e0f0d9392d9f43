-- Plain commands, one after the other, in the same step as the check.
-- ARGV from 3 on: how many words, the words, how many words, the words, ...
local answers, at = {1}, 3
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  answers[#answers + 1] = redis.call(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end
return answers
