#!lua
-- follow: become a follower, then read the log. Parts: state, followers.
-- KEYS    1 bc:{tag}:turn:<id> hash · 2 bc:{tag}:followers:<id> list · 3 bc:{tag}:log:<id> list ·
--         4 bc:{tag}:waiting list
-- ARGV    1 turn id · 2 follower or empty · 3 follower limit · 4 time to live of unended keys, ms ·
--         5 attempt that the reader has, or -1 · 6 last seq that it has
-- Answers {state …, from seq, 1 = the log is there, frame …}, or {} when unknown

local TURN, FOLLOWERS, LOG = KEYS[1], KEYS[2], KEYS[3]
local turn = redis.call('HMGET', TURN, 'attempt', 'last', 'outcome')
if not turn[1] then return {} end
local ended = turn[3]
if ARGV[2] ~= '' and not ended then
  add_follower(TURN, FOLLOWERS, ARGV[2], tonumber(ARGV[3]), ARGV[4])
end
local from, after = 0, tonumber(ARGV[6])
if turn[1] == ARGV[5] and after > 0 then from = math.min(after, tonumber(turn[2])) + 1 end
local answer = state_of(TURN, KEYS[4], ARGV[1])
local kept = not ended or redis.call('EXISTS', LOG) == 1
answer[#answer + 1] = from
answer[#answer + 1] = kept and 1 or 0
for _, frame in ipairs(redis.call('LRANGE', LOG, from, -1)) do answer[#answer + 1] = frame end
return answer
