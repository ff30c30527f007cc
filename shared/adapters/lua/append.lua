#!lua
-- append: write frozen frames to a turn's log, or none to renew its lease. Part: producer.
-- KEYS    1 bc:{tag}:turn:<id> hash · 2 bc:{tag}:followers:<id> list · 3 bc:{tag}:log:<id> list
-- ARGV    1 lease until, epoch ms · 2 time to live of an unended log, ms · 3 attempt · 4 nonce · 5 first seq ·
--         6… frames
-- Answers as `hold` in producer.lua

return hold(KEYS[1], KEYS[2], KEYS[3], {
  lease_until = ARGV[1], live_ttl = ARGV[2], attempt = ARGV[3], nonce = ARGV[4],
  first_seq = ARGV[5]}, 6)
