#!lua
-- finish: append the last frames, end the turn, pop the next head. Parts: session, producer, ending.
-- KEYS    1-3 the session (session.lua) · 4 bc:{tag}:turn:<id> hash · 5 bc:{tag}:followers:<id> list ·
--         6 bc:{tag}:log:<id> list · 7 bc:{tag}:history string
-- ARGV    1-3 (session.lua) · 4 attempt · 5 nonce · 6 first seq · 7 status · 8 time to live of the log, ms ·
--         9 of the outcome, ms · 10 `1` = replace the history · 11 history · 12 its time to live, ms ·
--         13… frames, the last one terminal
-- Answers as `end_turn` in ending.lua, or a refusal as `hold` in producer.lua

local answer = hold(KEYS[4], KEYS[5], KEYS[6], {
  lease_until = NOW, live_ttl = LIVE_TTL, attempt = ARGV[4], nonce = ARGV[5],
  first_seq = ARGV[6]}, 13)
if answer[1] ~= 'held' then return answer end
if ARGV[10] == '1' then redis.call('SET', KEYS[7], ARGV[11], 'PX', ARGV[12]) end
return end_turn(KEYS[4], KEYS[5], KEYS[6], ARGV[7], ARGV[#ARGV], ARGV[8], ARGV[9])
