#!lua
-- move_due: give entries of one set of the due index a new time, each only while it is as it was read.
-- KEYS    1 bc:due:{n} sorted set
-- ARGV    member, score as read, new score or empty to remove; these three again and again
-- Answers 1 or 0 for each entry, in order

local answer = {}
for i = 1, #ARGV, 3 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  local moved = score and tonumber(score) == tonumber(ARGV[i + 1])
  if moved and ARGV[i + 2] == '' then
    redis.call('ZREM', KEYS[1], ARGV[i])
  elseif moved then
    redis.call('ZADD', KEYS[1], ARGV[i + 2], ARGV[i])
  end
  answer[#answer + 1] = moved and 1 or 0
end
return answer
