#!lua
-- reopen: have a turn that failed wait again, detached and outside the session queue; enter one that is unknown.
-- Parts: session.
-- KEYS    1-3 the session (session.lua) · 4 bc:{tag}:turn:<id> hash · 5 bc:{tag}:followers:<id> list ·
--         6 bc:{tag}:log:<id> list · 7 bc:{tag}:message:<message id> string
-- ARGV    1-3 (session.lua) · 4 message id · 5 request, JSON · 6 mark · 7 the last attempt that the caller knows of
-- Answers {'reopened', last attempt} · {'kept', status}

local TURN, FOLLOWERS, LOG, MESSAGE = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local turn = redis.call('HMGET', TURN, 'status', 'attempt')
if turn[1] and turn[1] ~= 'failed' then return {'kept', turn[1]} end

-- The attempt stays, so that the next claim fences every producer of old; what the failed one showed is void.
local attempt = math.max(tonumber(turn[2] or '0'), tonumber(ARGV[7]))
redis.call('DEL', TURN, FOLLOWERS, LOG)
redis.call('HSET', TURN, 'request', ARGV[5], 'message', ARGV[4], 'mark', ARGV[6], 'detached', '1',
  'status', 'waiting', 'placed', 'inline', 'placed_at', '0', 'attempt', attempt, 'nonce', '',
  'lease', '0', 'last', '-1', 'cancel', '0', 'readerless', NOW, 'ready', '0')
redis.call('PEXPIRE', TURN, LIVE_TTL)
-- A turn that the ledger lost may have left its place in the queue behind.
for _, left in ipairs({'i', 'd'}) do redis.call('LREM', WAITING, 0, left .. ID) end
redis.call('LREM', OUTSIDE, 0, ID)
if redis.call('GET', HEAD) ~= ID then
  redis.call('RPUSH', OUTSIDE, ID)
  redis.call('PEXPIRE', OUTSIDE, LIVE_TTL)
end
local known = redis.call('GET', MESSAGE)
if not known or known == ID then redis.call('SET', MESSAGE, ID, 'PX', LIVE_TTL) end
return {'reopened', attempt}
