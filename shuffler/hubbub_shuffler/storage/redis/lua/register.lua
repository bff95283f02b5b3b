-- Record a bucket before anything is put into it. Returns its record.
-- KEYS bucket, open   ARGV clock, member, incarnation, name, size, closes_at, minimum
if redis.call('EXISTS', KEYS[1]) == 0 then
  if clock(ARGV[1]) >= tonumber(ARGV[6]) then return {'due', '0', '', ''} end
  redis.call('HSET', KEYS[1], 'state', 'open', 'revoked', '0', 'incarnation', ARGV[3], 'name', ARGV[4],
             'size', ARGV[5], 'closes_at', ARGV[6], 'minimum', ARGV[7], 'reports', 0, 'batches', 0)
  redis.call('ZADD', KEYS[2], ARGV[6], ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'state', 'revoked', 'incarnation', 'closes_at')
