#!lua
-- look: a turn as a sweeper needs it. Parts: session, state.
-- The session of a waiting turn whose head was lost gets a new one on the way.
-- KEYS    1-3 the session (session.lua) · 4 bc:{tag}:turn:<id> hash; also reads bc:{tag}:attempts:<id> list
-- ARGV    1-3 (session.lua)
-- Answers {state …, the 12 fields below, {encoded earlier attempts}}, or {} when unknown

local TURN = KEYS[4]
local turn = redis.call('HMGET', TURN, 'mark', 'attempt')
if not turn[1] then return {} end
if redis.call('LPOS', WAITING, turn[1] .. ID) then open_head() end
local answer = state_of(TURN, WAITING, ID)
local recovery = redis.call('HMGET', TURN, 'tries', 'crashes', 'released', 'due', 'reserved',
  'dispatches', 'dispatched', 'offered', 'delivery', 'worker', 'path', 'claimed_at')
for i = 1, 12 do answer[#answer + 1] = recovery[i] end
answer[#answer + 1] = redis.call('LRANGE', BASE .. 'attempts:' .. ID, 0, -1)
return answer
