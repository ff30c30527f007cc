-- Part: the queue of one session. Put before scripts whose first three keys are
--   KEYS[1] bc:{tag}:head     string  id of the one turn that may run
--   KEYS[2] bc:{tag}:waiting  list    marked ids of the turns behind it, next first
--   KEYS[3] bc:{tag}:outside  list    ids of accepted detached turns that were never claimed
-- and whose first three arguments are
--   ARGV[1] now, epoch ms · ARGV[2] time to live of unended keys, ms · ARGV[3] turn id
-- A marked id is `i` (interactive, counts against the limit) or `d` (detached), then the id.
-- Keys of other turns of the session are derived: same hash tag, hence same slot.

local HEAD, WAITING, OUTSIDE = KEYS[1], KEYS[2], KEYS[3]
local NOW, LIVE_TTL, ID = ARGV[1], ARGV[2], ARGV[3]
local BASE = string.sub(HEAD, 1, -5)

local function turn_key(id)
  return BASE .. 'turn:' .. id
end

local function set_head(id)
  redis.call('SET', HEAD, id, 'PX', LIVE_TTL)
end

-- Make the next open turn the head. Answers {request, ready_at_ms} when somebody must dispatch it.
local function pop_head()
  redis.call('DEL', HEAD)
  while true do
    local marked = redis.call('LPOP', WAITING)
    if not marked then return nil end
    local id = string.sub(marked, 2)
    local key = turn_key(id)
    local turn = redis.call('HMGET', key, 'status', 'lease', 'attempt', 'request', 'ready')
    if turn[1] == 'waiting' or turn[1] == 'running' then
      set_head(id)
      -- A turn that re-entered after a data loss runs beside its head: it needs no dispatch.
      if tonumber(turn[2]) > tonumber(NOW) then return nil end
      redis.call('HSET', key, 'placed', 'inline')
      if turn[3] ~= '0' then return {turn[4], turn[5]} end
      redis.call('HSET', key, 'ready', NOW)
      return {turn[4], NOW}
    end
  end
end

-- The head, after replacing one that was lost or has ended.
local function open_head()
  local id = redis.call('GET', HEAD)
  if id then
    local status = redis.call('HGET', turn_key(id), 'status')
    if status == 'waiting' or status == 'running' then return id end
  end
  pop_head()
  return redis.call('GET', HEAD)
end

local function push_waiting(command, marked)
  redis.call(command, WAITING, marked)
  redis.call('PEXPIRE', WAITING, LIVE_TTL)
end
