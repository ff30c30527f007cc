#!lua flags=no-writes
-- find_message: the turn of a message id. Part: state.
-- KEYS    1 bc:{tag}:message:<message id> string · 2 bc:{tag}:waiting list; also reads bc:{tag}:turn:<id>
-- Answers {state …}, or {} when no such message was accepted

local id = redis.call('GET', KEYS[1])
if not id then return {} end
local key = string.sub(KEYS[2], 1, -8) .. 'turn:' .. id
if redis.call('EXISTS', key) == 0 then return {} end
return state_of(key, KEYS[2], id)
