#!lua
-- unfollow: remove exactly this follower; the grace starts when it was the last of a turn that needs a reader.
-- KEYS    1 bc:{tag}:turn:<id> hash · 2 bc:{tag}:followers:<id> list
-- ARGV    1 now, epoch ms · 2 follower
-- Answers readerless since, epoch ms, 0 = someone reads

local removed = redis.call('LREM', KEYS[2], 0, ARGV[2]) > 0
local turn = redis.call('HMGET', KEYS[1], 'readerless', 'detached')
local readerless = turn[1]
if not readerless then return 0 end
if removed and turn[2] ~= '1' and redis.call('EXISTS', KEYS[2]) == 0 then
  readerless = ARGV[1]
  redis.call('HSET', KEYS[1], 'readerless', readerless)
end
return tonumber(readerless)
