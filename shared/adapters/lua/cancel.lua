#!lua
-- cancel: flag a claimed turn, end one that was never claimed. Parts: session, ending.
-- A turn whose lease lapsed is flagged too: its answer may be stored already, which the next claimer finds out.
-- KEYS    1-3 the session (session.lua) · 4 bc:{tag}:turn:<id> hash · 5 bc:{tag}:followers:<id> list ·
--         6 bc:{tag}:log:<id> list
-- ARGV    1-3 (session.lua) · 4 outcome · 5 time to live of the log, ms · 6 of the outcome, ms
-- Answers as `end_turn` in ending.lua · {'requested'} · {'ended', status, outcome} · {'unknown'}

local turn = redis.call('HMGET', KEYS[4], 'status', 'outcome', 'attempt')
if not turn[1] then return {'unknown'} end
if turn[2] then return {'ended', turn[1], turn[2]} end
if turn[3] ~= '0' then
  redis.call('HSET', KEYS[4], 'cancel', '1')
  return {'requested'}
end
return end_turn(KEYS[4], KEYS[5], KEYS[6], 'cancelled', ARGV[4], ARGV[5], ARGV[6])
