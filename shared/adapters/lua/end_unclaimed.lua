#!lua
-- end_unclaimed: end a turn that nobody holds. Parts: session, state, ending.
-- KEYS    1-3 the session (session.lua) · 4 bc:{tag}:turn:<id> hash · 5 bc:{tag}:followers:<id> list ·
--         6 bc:{tag}:log:<id> list
-- ARGV    1-3 (session.lua) · 4 the attempt that the caller saw, 0 = never claimed · 5 status · 6 outcome ·
--         7 time to live of the log, ms · 8 of the outcome, ms
-- Answers as `end_turn` in ending.lua · {'ended', status, outcome} · {'claimed', state …} · {'unknown'}

local TURN, FOLLOWERS, LOG = KEYS[4], KEYS[5], KEYS[6]
local turn = redis.call('HMGET', TURN, 'status', 'outcome', 'attempt', 'lease')
if not turn[1] then return {'unknown'} end
if turn[2] then return {'ended', turn[1], turn[2]} end
if turn[3] ~= ARGV[4] or tonumber(turn[4]) > tonumber(NOW) then
  local state = state_of(TURN, WAITING, ID)
  table.insert(state, 1, 'claimed')
  return state
end
if turn[3] ~= '0' then
  -- The attempt may have shown text: its log gets the end, so that a replay has it.
  redis.call('RPUSH', LOG, ARGV[6])
  redis.call('HINCRBY', TURN, 'last', 1)
end
return end_turn(TURN, FOLLOWERS, LOG, ARGV[5], ARGV[6], ARGV[7], ARGV[8])
