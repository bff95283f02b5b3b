-- Add one group commit for one bucket to one shard. Returns 'kept' if the shard is open and not due, or why not.
-- KEYS shard, blobs   ARGV clock, incarnation, closes_at, reports, blob...
-- Without an incarnation, a missing shard is 'unknown': the caller must register the bucket first.
local shard = redis.call('HMGET', KEYS[1], 'state', 'closes_at', 'revoked')
local state, closes_at = shard[1], tonumber(shard[2])
if not state then
  if ARGV[2] == '' then return 'unknown' end
  closes_at = tonumber(ARGV[3])
elseif state ~= 'open' then
  return ({['1'] = 'revoked-key', ['2'] = 'metric-disabled'})[shard[3]] or 'period-closed'
end
if clock(ARGV[1]) >= closes_at then return 'period-closed' end
if not state then
  redis.call('HSET', KEYS[1], 'state', 'open', 'closes_at', ARGV[3], 'incarnation', ARGV[2], 'reports', 0)
end
local new = 0
for i = 5, #ARGV do
  new = new + redis.call('ZADD', KEYS[2], 0, ARGV[i])
end
if new > 0 then redis.call('HINCRBY', KEYS[1], 'reports', ARGV[4]) end -- 0: the same call came twice
return 'kept'
