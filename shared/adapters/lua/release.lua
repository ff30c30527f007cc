#!lua
-- release: give a claim up alive, so that another worker may claim the turn at once. Not a crash.
-- KEYS    1 bc:{tag}:turn:<id> hash
-- ARGV    1 now, epoch ms · 2 attempt · 3 nonce · 4 how (Release) · 5 due, epoch ms ·
--         6 reserved until, epoch ms, empty when nobody sends the turn anywhere
-- Answers 1 when released, 0 when the claim does not stand

local turn = redis.call('HMGET', KEYS[1], 'status', 'attempt', 'nonce')
if turn[1] ~= 'running' or turn[2] ~= ARGV[2] or turn[3] ~= ARGV[3] then return 0 end
-- Without a nonce a renewal still under way is fenced instead of holding the turn again.
redis.call('HSET', KEYS[1], 'lease', ARGV[1], 'nonce', '', 'released', ARGV[4], 'due', ARGV[5])
if ARGV[4] == 'throttled' then redis.call('HINCRBY', KEYS[1], 'tries', -1) end
if ARGV[6] ~= '' then
  redis.call('HSET', KEYS[1], 'reserved', ARGV[6], 'dispatches', '1', 'dispatched', ARGV[5])
end
return 1
