#!lua
-- reserve: become the one who dispatches an unclaimed turn, for a while.
-- KEYS    1 bc:{tag}:turn:<id> hash
-- ARGV    1 now, epoch ms · 2 sweeper · 3 the attempt that the caller saw · 4 the dispatches that it saw ·
--         5 reserved until, epoch ms · 6 kind, `dispatch`, `offer` or `delivery`
-- Answers 1 when reserved (the same call again included, which may say that a dispatch was an offer), else 0

local turn = redis.call('HMGET', KEYS[1], 'status', 'attempt', 'lease', 'dispatches', 'reserved',
  'reserved_by')
if turn[1] ~= 'waiting' and turn[1] ~= 'running' then return 0 end
if turn[2] ~= ARGV[3] or tonumber(turn[3]) > tonumber(ARGV[1]) then return 0 end
local dispatches, seen = tonumber(turn[4] or '0'), tonumber(ARGV[4])
if dispatches == seen + 1 and turn[5] == ARGV[5] and turn[6] == ARGV[2] then
  if ARGV[6] == 'offer' then redis.call('HSET', KEYS[1], 'offered', '1') end
  return 1
end
if dispatches ~= seen or tonumber(turn[5] or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'dispatches', dispatches + 1, 'reserved', ARGV[5], 'reserved_by', ARGV[2])
redis.call('HSETNX', KEYS[1], 'dispatched', ARGV[1])
if ARGV[6] == 'offer' then redis.call('HSET', KEYS[1], 'offered', '1') end
if ARGV[6] == 'delivery' then redis.call('HSET', KEYS[1], 'delivery', '1') end
return 1
