-- Part: the followers of a turn, a list of encoded followers, oldest first.

local function add_follower(turn, followers, follower, limit, live_ttl)
  redis.call('LREM', followers, 0, follower)
  redis.call('RPUSH', followers, follower)
  redis.call('LTRIM', followers, -limit, -1)
  redis.call('PEXPIRE', followers, live_ttl)
  redis.call('HSET', turn, 'readerless', '0')
end
