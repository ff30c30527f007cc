-- Part: what a producer may write. `hold` checks the claim, appends frames (none to renew only) and extends the
-- lease, all or nothing. Frames that are in the log already must be the same bytes; the log's index is the seq.
-- Answers {'held', cancel, readerless, follower …} · {'fenced', attempt} · {'ended', status, outcome} ·
-- {'gap', last seq} · {'unknown'}.

local function hold(turn, followers, log, claim, first_frame)
  local stored = redis.call('HMGET', turn, 'attempt', 'nonce', 'status', 'last', 'cancel',
    'readerless')
  if not stored[1] then return {'unknown'} end
  if stored[3] ~= 'running' and stored[3] ~= 'waiting' then
    return {'ended', stored[3], redis.call('HGET', turn, 'outcome')}
  end
  local attempt = tonumber(stored[1])
  if attempt < tonumber(claim.attempt) then return {'unknown'} end
  if attempt > tonumber(claim.attempt) or stored[2] ~= claim.nonce then
    return {'fenced', attempt}
  end
  local last = tonumber(stored[4])
  local count = #ARGV - first_frame + 1
  if count > 0 then
    local first_seq = tonumber(claim.first_seq)
    if first_seq > last + 1 then return {'gap', last} end
    local known = {}
    if first_seq <= last then
      known = redis.call('LRANGE', log, first_seq, first_seq + count - 1)
    end
    for i = 1, #known do
      -- Frozen frames that differ mean two writers of one claim; the log must not mix them.
      if known[i] ~= ARGV[first_frame + i - 1] then return {'fenced', attempt} end
    end
    for i = first_frame + #known, #ARGV do redis.call('RPUSH', log, ARGV[i]) end
    if last == -1 then redis.call('PEXPIRE', log, claim.live_ttl) end
    last = math.max(last, first_seq + count - 1)
  end
  redis.call('HSET', turn, 'last', last, 'lease', claim.lease_until)
  local answer = redis.call('LRANGE', followers, 0, -1)
  table.insert(answer, 1, stored[6])
  table.insert(answer, 1, stored[5])
  table.insert(answer, 1, 'held')
  return answer
end
