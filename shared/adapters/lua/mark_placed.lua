#!lua
-- mark_placed: note where an unended turn was put.
-- KEYS    1 bc:{tag}:turn:<id> hash
-- ARGV    1 path · 2 now, epoch ms
-- Answers 1 when nobody holds the turn, 0 when it is held, ended or unknown

local turn = redis.call('HMGET', KEYS[1], 'status', 'lease')
if turn[1] ~= 'waiting' and turn[1] ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'placed', ARGV[1], 'placed_at', ARGV[2])
return tonumber(turn[2]) <= tonumber(ARGV[2]) and 1 or 0
