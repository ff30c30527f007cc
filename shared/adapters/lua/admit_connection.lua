#!lua
-- admit_connection: count a connection of a user, unless there are as many as may be.
-- KEYS    1 bc:user:<hash> hash, connection id -> owner
-- ARGV    1 time to live, ms · 2 connection id · 3 owner · 4 limit
-- Answers {} when it counts, else all of the hash: its owners may be dead

if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then
  return redis.call('HGETALL', KEYS[1])
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {}
