#!lua
-- detach: from now on the turn needs no reader; its grace, should it run, ends.
-- KEYS    1 bc:{tag}:turn:<id> hash
-- Answers 1, or 0 when the turn is unknown or has ended

local status = redis.call('HGET', KEYS[1], 'status')
if status ~= 'waiting' and status ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'detached', '1', 'readerless', '0')
return 1
