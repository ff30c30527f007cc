#!lua
-- unregister: forget a connection if it is still this owner's.
-- KEYS    1 bc:conn:<connection id> hash
-- ARGV    1 owner
-- Answers the number of connections forgotten

if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
