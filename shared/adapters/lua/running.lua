#!lua flags=no-writes
-- running: the session's turns that have not ended, head first.
-- KEYS    1 bc:{tag}:head string · 2 bc:{tag}:waiting list · 3 bc:{tag}:outside list; also reads bc:{tag}:turn:<id>
-- ARGV    1 most turns to answer
-- Answers {{turn id, message id, attempt, last seq}, …}

local base = string.sub(KEYS[1], 1, -5)
local limit = tonumber(ARGV[1])
local ids = {redis.call('GET', KEYS[1]) or nil}
for _, marked in ipairs(redis.call('LRANGE', KEYS[2], 0, limit)) do
  ids[#ids + 1] = string.sub(marked, 2)
end
for _, id in ipairs(redis.call('LRANGE', KEYS[3], 0, limit)) do ids[#ids + 1] = id end

local answer = {}
for _, id in ipairs(ids) do
  local turn = redis.call('HMGET', base .. 'turn:' .. id, 'message', 'attempt', 'last', 'status')
  local open = turn[4] == 'waiting' or turn[4] == 'running'
  if open and #answer < limit then answer[#answer + 1] = {id, turn[1], turn[2], turn[3]} end
end
return answer
