#!lua
-- claim: become the only producer of a turn. Parts: session, state.
-- KEYS    1-3 the session (session.lua) · 4 bc:{tag}:turn:<id> hash · 5 bc:{tag}:followers:<id> list ·
--         6 bc:{tag}:log:<id> list · 7 bc:{tag}:message:<message id> string · 8 bc:{tag}:history string ·
--         9 bc:{tag}:attempts:<id> list, the attempts before the present one, oldest first
-- ARGV    1-3 (session.lua) · 4 message id · 5 request, JSON · 6 mark · 7 `1` = detached · 8 the request's
--         ready_at_ms · 9 attempt hint · 10 nonce · 11 worker · 12 path · 13 grace, ms · 14 lease, ms ·
--         15 attempts per turn · 16 crashes per turn
-- Answers {'claimed', attempt, tries, request, ready, cancel, history or false, {earlier attempts}, follower …} ·
-- {'refused', reason, state …}

local TURN, FOLLOWERS, LOG, MESSAGE, ATTEMPTS = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[9]
local KEPT_ATTEMPTS = 20
local hint, nonce, now = tonumber(ARGV[9]), ARGV[10], tonumber(NOW)

local function refused(reason)
  local state = state_of(TURN, WAITING, ID)
  table.insert(state, 1, reason)
  table.insert(state, 1, 'refused')
  return state
end

-- Take the head's place. A detached turn waits its turn instead, outside the limit.
local function take_head(mark, at_front, ready)
  local head = open_head()
  if head == ID then return true end
  if head and not at_front then
    if not redis.call('LPOS', WAITING, mark .. ID) then push_waiting('RPUSH', mark .. ID) end
    redis.call('HSET', TURN, 'placed', 'waiting')
    redis.call('LREM', OUTSIDE, 0, ID)
    return false
  end
  redis.call('LREM', WAITING, 0, mark .. ID)
  redis.call('LREM', OUTSIDE, 0, ID)
  if head then push_waiting('LPUSH', redis.call('HGET', turn_key(head), 'mark') .. head) end
  set_head(ID)
  if ready == '0' then redis.call('HSET', TURN, 'ready', NOW) end
  return true
end

local function claimed(attempt)
  local kept = redis.call('HMGET', TURN, 'request', 'ready', 'cancel', 'tries')
  local answer = redis.call('LRANGE', FOLLOWERS, 0, -1)
  table.insert(answer, 1, redis.call('LRANGE', ATTEMPTS, 0, -1))
  table.insert(answer, 1, redis.call('GET', KEYS[8]))
  table.insert(answer, 1, kept[3])
  table.insert(answer, 1, kept[2])
  table.insert(answer, 1, kept[1])
  table.insert(answer, 1, kept[4])
  table.insert(answer, 1, attempt)
  table.insert(answer, 1, 'claimed')
  return answer
end

local is_new = redis.call('EXISTS', TURN) == 0
if is_new then
  redis.call('HSET', TURN, 'request', ARGV[5], 'message', ARGV[4], 'mark', ARGV[6],
    'detached', ARGV[7], 'status', 'waiting', 'placed', 'inline', 'placed_at', '0',
    'attempt', '0', 'nonce', '', 'lease', '0', 'last', '-1', 'cancel', '0', 'readerless', NOW,
    'ready', ARGV[8])
  redis.call('PEXPIRE', TURN, LIVE_TTL)
  redis.call('SET', MESSAGE, ID, 'NX', 'PX', LIVE_TTL)
end

local turn = redis.call('HMGET', TURN, 'status', 'nonce', 'attempt', 'lease', 'mark', 'detached',
  'readerless', 'ready')
if turn[1] ~= 'waiting' and turn[1] ~= 'running' then return refused('ended') end
local attempt, mark = tonumber(turn[3]), turn[5]
local lease_until = now + tonumber(ARGV[14])

if turn[2] == nonce then
  -- The same claim again, after an answer that got lost.
  redis.call('HSET', TURN, 'lease', lease_until)
  return claimed(attempt)
end
-- A hint above ours means that the ledger lost that attempt: its producer re-enters at the front. A lease that the
-- ledger still holds is then an overtaken producer's; readers who have seen the later attempt would ignore its end.
local is_lost = hint > attempt
if tonumber(turn[4]) > now and not is_lost then return refused('leased') end

local past = redis.call('HMGET', TURN, 'tries', 'crashes', 'released', 'delivery', 'worker', 'path',
  'claimed_at')
local tries, crashes = tonumber(past[1] or '0'), tonumber(past[2] or '0')
local is_delivery = past[4] == '1'
local is_running = turn[1] == 'running'
-- An attempt whose lease lapsed without a release has crashed.
if is_running and not past[3] and not is_lost then crashes = crashes + 1 end
if not is_delivery and not is_lost
  and (crashes >= tonumber(ARGV[16]) or tries >= tonumber(ARGV[15])) then
  return refused('exhausted')
end

local at_front = is_lost or (is_new and mark == 'i')
if not take_head(mark, at_front, turn[8]) then return refused('not_head') end
if turn[6] == '0' and not is_delivery and redis.call('EXISTS', FOLLOWERS) == 0
  and now - tonumber(turn[7]) >= tonumber(ARGV[13]) then
  return refused('readerless')
end

if is_running then
  redis.call('RPUSH', ATTEMPTS, cjson.encode({turn[3], past[5], past[6], past[7], turn[4],
    past[3] or 'crashed'}))
  redis.call('LTRIM', ATTEMPTS, -KEPT_ATTEMPTS, -1)
  redis.call('PEXPIRE', ATTEMPTS, LIVE_TTL)
end
if not is_delivery then tries = tries + 1 end
attempt = math.max(attempt, hint) + 1
redis.call('DEL', LOG)
redis.call('HDEL', TURN, 'released', 'due', 'reserved', 'reserved_by', 'dispatches', 'dispatched',
  'offered', 'delivery')
redis.call('HSET', TURN, 'status', 'running', 'placed', ARGV[12], 'attempt', attempt,
  'nonce', nonce, 'worker', ARGV[11], 'lease', lease_until, 'last', '-1', 'path', ARGV[12],
  'claimed_at', NOW, 'tries', tries, 'crashes', crashes)
redis.call('PEXPIRE', TURN, LIVE_TTL)
return claimed(attempt)
