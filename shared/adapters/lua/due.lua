#!lua
-- due: the entries of one set of the due index whose time has come, for the one sweeper that holds the set.
-- A free set is taken; a holding is not extended, so that sets go round among the sweepers.
-- KEYS    1 bc:due:{n} sorted set · 2 bc:sweeper:{n} string, the sweeper that holds the set
-- ARGV    1 now, epoch ms · 2 sweeper · 3 holding, ms · 4 most entries to answer
-- Answers {member, score, …}, nothing when another sweeper holds the set

local holder = redis.call('GET', KEYS[2])
if not holder then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
elseif holder ~= ARGV[2] then
  return {}
end
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[4])
