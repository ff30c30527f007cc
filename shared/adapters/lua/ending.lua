-- Part, after session.lua: every end of a turn goes through here, once. Answers {'finished', request or false,
-- ready_at_ms of that next head, follower …}.

local function end_turn(turn, followers, log, status, outcome, log_ttl, outcome_ttl)
  local answer = redis.call('LRANGE', followers, 0, -1)
  local kept = redis.call('HMGET', turn, 'message', 'mark')
  redis.call('HSET', turn, 'status', status, 'outcome', outcome, 'lease', '0')
  redis.call('PEXPIRE', turn, outcome_ttl)
  redis.call('DEL', followers, BASE .. 'attempts:' .. ID)
  redis.call('PEXPIRE', log, log_ttl)
  local message = BASE .. 'message:' .. kept[1]
  if redis.call('GET', message) == ID then
    -- A rejected message was never accepted in its sender's eyes: the same id may come again.
    if status == 'rejected' then
      redis.call('DEL', message)
    else
      redis.call('PEXPIRE', message, outcome_ttl)
    end
  end
  local next_head = nil
  if redis.call('GET', HEAD) == ID then
    next_head = pop_head()
  else
    redis.call('LREM', WAITING, 0, kept[2] .. ID)
    redis.call('LREM', OUTSIDE, 0, ID)
  end
  table.insert(answer, 1, next_head and next_head[2] or '0')
  table.insert(answer, 1, next_head and next_head[1] or false)
  table.insert(answer, 1, 'finished')
  return answer
end
