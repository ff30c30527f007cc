#!lua
-- allowance: take up to so many of what a rate allows; nothing is written when there is none.
-- KEYS    1 bc:rate:<hash> string, when the count is even again, epoch ms; lives until then
-- ARGV    1 now, epoch ms · 2 ms per one · 3 how many at once · 4 how many are wanted
-- Answers {granted, 0} or {0, ms until there is one}

local now, every, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local even = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0'))
local free = math.floor((now + burst * every - even) / every)
local granted = math.min(tonumber(ARGV[4]), free)
if granted < 1 then return {0, math.ceil(even + every - burst * every - now)} end
even = even + granted * every
redis.call('SET', KEYS[1], string.format('%.3f', even), 'PX', math.ceil(even - now) + 1)
return {granted, 0}
