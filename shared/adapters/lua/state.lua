-- Part: a turn as the ledger answers it, 13 values in the order of redis_ledger_replies.py.

local function state_of(key, waiting, id)
  local state = redis.call('HMGET', key, 'request', 'status', 'placed', 'placed_at', 'attempt',
    'last', 'lease', 'ready', 'cancel', 'outcome', 'mark', 'message')
  local index = state[2] == 'waiting' or state[2] == 'running'
  if index then index = redis.call('LPOS', waiting, state[11] .. id) end
  state[11] = index and index + 1 or 0
  state[13] = id
  return state
end
