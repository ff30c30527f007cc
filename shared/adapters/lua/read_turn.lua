#!lua flags=no-writes
-- read_turn: one turn as it is. Part: state.
-- KEYS    1 bc:{tag}:turn:<id> hash · 2 bc:{tag}:waiting list
-- ARGV    1 turn id
-- Answers {state …}, or {} when unknown

if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
return state_of(KEYS[1], KEYS[2], ARGV[1])
