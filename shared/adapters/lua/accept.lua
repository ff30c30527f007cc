#!lua
-- accept: make a message a turn, once per message id. Parts: session, state, followers.
-- KEYS    1-3 the session (session.lua) · 4 bc:{tag}:turn:<id> hash · 5 bc:{tag}:followers:<id> list ·
--         6 bc:{tag}:message:<message id> string, the id of its turn
-- ARGV    1-3 (session.lua) · 4 message id · 5 request, JSON · 6 mark `i`, or `d` = outside the queue ·
--         7 `1` = detached · 8 follower or empty · 9 follower limit · 10 limit of waiting turns
-- Answers {'head'} · {'waiting', position} · {'detached'} · {'busy'} · {'known', state …}

local TURN, FOLLOWERS, MESSAGE = KEYS[4], KEYS[5], KEYS[6]
local mark, follower, follower_limit = ARGV[6], ARGV[8], tonumber(ARGV[9])

local known = redis.call('GET', MESSAGE)
if known then
  local key = turn_key(known)
  local status = redis.call('HGET', key, 'status')
  if status and status ~= 'rejected' then
    if follower ~= '' and (status == 'waiting' or status == 'running') then
      add_follower(key, BASE .. 'followers:' .. known, follower, follower_limit, LIVE_TTL)
    end
    local state = state_of(key, WAITING, known)
    table.insert(state, 1, 'known')
    return state
  end
end

local outside = mark == 'd'
local head = open_head()
if head and not outside then
  local interactive = 0
  for _, marked in ipairs(redis.call('LRANGE', WAITING, 0, -1)) do
    if string.sub(marked, 1, 1) == 'i' then interactive = interactive + 1 end
  end
  if interactive >= tonumber(ARGV[10]) then return {'busy'} end
end

local is_head = not head and not outside
local placed = head and not outside and 'waiting' or 'inline'
redis.call('HSET', TURN, 'request', ARGV[5], 'message', ARGV[4], 'mark', mark,
  'detached', ARGV[7], 'status', 'waiting', 'placed', placed, 'placed_at', '0', 'attempt', '0',
  'nonce', '', 'lease', '0', 'last', '-1', 'cancel', '0', 'readerless', NOW,
  'ready', is_head and NOW or '0')
redis.call('PEXPIRE', TURN, LIVE_TTL)
redis.call('SET', MESSAGE, ID, 'PX', LIVE_TTL)
if follower ~= '' then add_follower(TURN, FOLLOWERS, follower, follower_limit, LIVE_TTL) end

if outside then
  redis.call('RPUSH', OUTSIDE, ID)
  redis.call('PEXPIRE', OUTSIDE, LIVE_TTL)
  return {'detached'}
end
if is_head then
  set_head(ID)
  return {'head'}
end
push_waiting('RPUSH', mark .. ID)
return {'waiting', redis.call('LLEN', WAITING)}
