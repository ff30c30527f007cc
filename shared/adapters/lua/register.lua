#!lua
-- register: remember a connection.
-- KEYS    1 bc:conn:<connection id> hash
-- ARGV    1 time to live, ms · 2 endpoint · 3 owner · 4 tenant · 5 user · 6 session id

redis.call('HSET', KEYS[1], 'endpoint', ARGV[2], 'owner', ARGV[3], 'tenant', ARGV[4],
  'user', ARGV[5], 'session', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
