#!lua
-- budget: one process settles with the shared model budget, and asks for more.
-- What was charged in the last window counts against the limits, in cells of a quarter of a second or so; what a
-- process holds in advance counts, too, and is charged when the process falls silent.
-- KEYS    1 bc:{budget}:window hash · 2 bc:{budget}:seen sorted set, worker by its last call ·
--         3 bc:{budget}:line:interactive, 4 bc:{budget}:line:detached sorted sets, waiting workers by the time since
--         when their first call waits
-- ARGV    1 now, epoch ms · 2 worker · 3 window, ms · 4 cell, ms · 5 requests, 6 tokens per window (0 = no limit) ·
--         7 used requests, 8 tokens of the advance · 9 advance wanted, requests, 10 tokens ·
--         11 pause, ms · 12 the provider's limit of requests, 13 requests left, 14 limit of tokens, 15 tokens left
--         (each -1 = not told) · 16 interactive, 17 detached line since, epoch ms · 18 length of the interactive,
--         19 of the detached line · 20 number of corrections ·
--         then the tokens of each call of both lines, then cell, `i` or `d`, tokens of each correction
-- Answers {cell, granted interactive, granted detached, advance requests, advance tokens, wait, wait for requests
--          alone, wait of one more, workers}

local WINDOW, SEEN, LINES = KEYS[1], KEYS[2], {i = KEYS[3], d = KEYS[4]}
local DEAD_AFTER, LINE_DEAD_AFTER, CLOCK_TOLERANCE, LIMIT_KEPT = 10000, 2000, 5000, 600000
local SHARE = {i = 0.9, d = 0.1}
local function arg(n) return tonumber(ARGV[n]) end
local now, me, window, cell_ms = arg(1), ARGV[2], arg(3), arg(4)

local latest = tonumber(redis.call('HGET', WINDOW, 'latest') or '0')
if now < latest - CLOCK_TOLERANCE then
  -- Somebody's clock was far ahead: what it left would block everyone until then.
  redis.call('DEL', WINDOW, SEEN, LINES.i, LINES.d)
  latest = 0
end
now = math.max(now, latest)
local cell = math.floor(now / cell_ms)
local first = math.floor((now - window) / cell_ms)

local kept = redis.call('HMGET', WINDOW, 'oldest', 'r', 't', 'dr', 'dt', 'hr', 'ht', 'lr', 'lt',
  'limits_until', 'paused')
local function number(n) return tonumber(kept[n] or '0') end
local oldest, held_r, held_t = number(1), number(6), number(7)
local total = {r = number(2), t = number(3), dr = number(4), dt = number(5)}

local function add(at, kind, requests, tokens)
  redis.call('HINCRBY', WINDOW, 'r' .. at, requests)
  redis.call('HINCRBY', WINDOW, 't' .. at, tokens)
  total.r, total.t = total.r + requests, total.t + tokens
  if kind == 'd' then
    redis.call('HINCRBY', WINDOW, 'dr' .. at, requests)
    redis.call('HINCRBY', WINDOW, 'dt' .. at, tokens)
    total.dr, total.dt = total.dr + requests, total.dt + tokens
  end
end

-- Charges that have lapsed.
if oldest > 0 and oldest < first then
  local names = {}
  for at = oldest, math.min(first - 1, math.floor(latest / cell_ms)) do
    for _, name in ipairs({'r', 't', 'dr', 'dt'}) do names[#names + 1] = name .. at end
  end
  if #names > 0 then
    local lapsed = redis.call('HMGET', WINDOW, unpack(names))
    for n = 1, #lapsed, 4 do
      total.r = total.r - tonumber(lapsed[n] or '0')
      total.t = total.t - tonumber(lapsed[n + 1] or '0')
      total.dr = total.dr - tonumber(lapsed[n + 2] or '0')
      total.dt = total.dt - tonumber(lapsed[n + 3] or '0')
    end
    redis.call('HDEL', WINDOW, unpack(names))
  end
end

local function take_back(worker)
  local held = redis.call('HGET', WINDOW, 'h:' .. worker)
  if not held then return 0, 0 end
  local requests, tokens = string.match(held, '^(%d+) (%d+)$')
  redis.call('HDEL', WINDOW, 'h:' .. worker)
  held_r, held_t = held_r - requests, held_t - tokens
  return tonumber(requests), tonumber(tokens)
end

-- Whoever died may have used what it held.
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', SEEN, '-inf', now - DEAD_AFTER, 'LIMIT', 0, 16)) do
  local requests, tokens = take_back(worker)
  if requests > 0 then add(cell, 'i', requests, tokens) end
  redis.call('ZREM', SEEN, worker)
end
redis.call('ZADD', SEEN, now, me)
take_back(me)
if arg(7) > 0 or arg(8) > 0 then add(cell, 'i', arg(7), arg(8)) end

local needs_at = 21
local corrections_at = needs_at + arg(18) + arg(19)
for n = 0, arg(20) - 1 do
  local at = arg(corrections_at + 3 * n)
  if at >= first and at <= cell then
    add(at, ARGV[corrections_at + 3 * n + 1], 0, arg(corrections_at + 3 * n + 2))
  end
end

-- What the provider knows better.
local limit_r, limit_t, limits_until = number(8), number(9), number(10)
local paused = number(11)
if arg(12) > 0 or arg(14) > 0 then
  limit_r, limit_t, limits_until = math.max(0, arg(12)), math.max(0, arg(14)), now + LIMIT_KEPT
  redis.call('HSET', WINDOW, 'lr', limit_r, 'lt', limit_t, 'limits_until', limits_until)
end
if arg(11) > 0 and now + arg(11) > paused then
  paused = now + arg(11)
  redis.call('HSET', WINDOW, 'paused', paused)
end
local UNLIMITED = 2 ^ 53
local cap_r, cap_t = arg(5), arg(6)
if limits_until > now then
  if limit_r > 0 and cap_r > 0 then cap_r = math.min(cap_r, limit_r) end
  if limit_t > 0 and cap_t > 0 then cap_t = math.min(cap_t, limit_t) end
end
if cap_r == 0 then cap_r = UNLIMITED end
if cap_t == 0 then cap_t = UNLIMITED end
-- Fewer left than we think: others use the same quota.
local foreign_r, foreign_t = 0, 0
if arg(13) >= 0 and cap_r < UNLIMITED then foreign_r = math.max(0, cap_r - total.r - held_r - arg(13)) end
if arg(15) >= 0 and cap_t < UNLIMITED then foreign_t = math.max(0, cap_t - total.t - held_t - arg(15)) end
if foreign_r > 0 or foreign_t > 0 then add(cell, 'i', foreign_r, foreign_t) end

-- The one of another process that has waited longest, so that no large call waits for ever.
local function eldest(kind)
  local line = LINES[kind]
  for _ = 1, 16 do
    local worker = redis.call('ZRANGE', line, 0, 0)[1]
    if not worker or worker == me then return worker end
    local seen = redis.call('ZSCORE', SEEN, worker)
    if seen and tonumber(seen) > now - LINE_DEAD_AFTER then return worker end
    redis.call('ZREM', line, worker)
  end
end

local needs = {i = {}, d = {}}
for n = 0, arg(18) - 1 do needs.i[#needs.i + 1] = arg(needs_at + n) end
for n = 0, arg(19) - 1 do needs.d[#needs.d + 1] = arg(needs_at + arg(18) + n) end
local since = {i = arg(16), d = arg(17)}
local OTHER = {i = 'd', d = 'i'}
local is_waiting = {}
for _, kind in ipairs({'i', 'd'}) do
  if #needs[kind] > 0 then
    redis.call('ZADD', LINES[kind], since[kind], me)
  else
    redis.call('ZREM', LINES[kind], me)
  end
end
for _, kind in ipairs({'i', 'd'}) do is_waiting[kind] = eldest(kind) end

-- A call larger than the limit fits into an empty window.
local function lacking(tokens, aside_r, aside_t)
  local needed_t = math.min(cap_t, aside_t + tokens)
  return total.r + held_r + aside_r + 1 - cap_r, total.t + held_t + needed_t - cap_t
end

local function is_within_share(kind, tokens)
  if not is_waiting[OTHER[kind]] then return true end
  local requests, used = total.dr, total.dt
  if kind == 'i' then requests, used = total.r - total.dr, total.t - total.dt end
  if requests <= 0 then return true end
  return requests + 1 <= SHARE[kind] * cap_r and used + tokens <= SHARE[kind] * cap_t
end

local granted, blocked = {i = 0, d = 0}, nil
for _, kind in ipairs({'i', 'd'}) do
  local aside_r, aside_t = 0, 0
  local first_in_line = is_waiting[kind]
  if first_in_line and first_in_line ~= me then
    aside_r = 1
    aside_t = tonumber(redis.call('HGET', WINDOW, 'n:' .. kind .. ':' .. first_in_line) or '0')
  end
  for _, tokens in ipairs(needs[kind]) do
    local lack_r, lack_t = lacking(tokens, aside_r, aside_t)
    local fits = lack_r <= 0 and lack_t <= 0 and is_within_share(kind, tokens)
    if not fits or paused > now then
      blocked = blocked or {lack_r = lack_r, lack_t = lack_t}
      break
    end
    add(cell, kind, 1, tokens)
    granted[kind] = granted[kind] + 1
  end
  local name = 'n:' .. kind .. ':' .. me
  if granted[kind] == #needs[kind] then
    if #needs[kind] > 0 then redis.call('ZREM', LINES[kind], me) end
    redis.call('HDEL', WINDOW, name)
  else
    redis.call('HSET', WINDOW, name, needs[kind][granted[kind] + 1])
  end
end

local workers = redis.call('ZCARD', SEEN)
local advance_r, advance_t = 0, 0
local is_line = redis.call('EXISTS', LINES.i, LINES.d) > 0
if not is_line and paused <= now then
  advance_r = math.min(arg(9), math.floor((cap_r - total.r - held_r) / (2 * workers)))
  advance_t = math.min(arg(10), math.floor((cap_t - total.t - held_t) / (2 * workers)))
  if advance_r < 1 or advance_t < 1 then advance_r, advance_t = 0, 0 end
end
if advance_r > 0 then
  redis.call('HSET', WINDOW, 'h:' .. me, string.format('%.0f %.0f', advance_r, advance_t))
  held_r, held_t = held_r + advance_r, held_t + advance_t
end

-- Until so much has lapsed; a line longer than the limits takes more than one window.
local function wait_for(lack_r, lack_t)
  if lack_r <= 0 and lack_t <= 0 then return 0 end
  local freed_r, freed_t = 0, 0
  for from = first, cell, 100 do
    local names = {}
    local to = math.min(cell, from + 99)
    for at = from, to do
      names[#names + 1] = 'r' .. at
      names[#names + 1] = 't' .. at
    end
    local charges = redis.call('HMGET', WINDOW, unpack(names))
    for n = 1, #charges, 2 do
      freed_r = freed_r + tonumber(charges[n] or '0')
      freed_t = freed_t + tonumber(charges[n + 1] or '0')
      if freed_r >= lack_r and freed_t >= lack_t then
        return (from + (n + 1) / 2) * cell_ms + window - now
      end
    end
  end
  local excess = math.max((lack_r - freed_r) / math.max(1, cap_r), (lack_t - freed_t) / math.max(1, cap_t))
  return math.ceil(window * (1 + math.min(excess, 1000)))
end

local wait, certain_wait, pause = 0, 0, math.max(0, paused - now)
if blocked then
  -- What others hold in advance they give back within a second, now that somebody waits.
  wait = math.max(pause, cell_ms, wait_for(blocked.lack_r - held_r, blocked.lack_t - held_t))
  certain_wait = math.max(pause, wait_for(blocked.lack_r - held_r, 0))
end
local left = 1 + #needs.i - granted.i + #needs.d - granted.d
if is_line then
  -- The lines of others are taken to be as long as this one.
  left = left * (redis.call('ZCARD', LINES.i) + redis.call('ZCARD', LINES.d))
end
local next_wait = math.max(pause, wait_for(total.r + left - cap_r, 0))

redis.call('HSET', WINDOW, 'latest', now, 'oldest', first, 'r', total.r, 't', total.t,
  'dr', total.dr, 'dt', total.dt, 'hr', held_r, 'ht', held_t)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, math.max(3 * window, LIMIT_KEPT)) end
return {cell, granted.i, granted.d, advance_r, advance_t, math.ceil(wait), math.ceil(certain_wait),
  math.ceil(next_wait), workers}
