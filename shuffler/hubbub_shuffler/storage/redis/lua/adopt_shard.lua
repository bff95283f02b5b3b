-- Restore the record of a shard of a closed bucket: that it is closed, and which bucket it belongs to.
-- KEYS shard   ARGV incarnation, closes_at, revoked, reports
if redis.call('HGET', KEYS[1], 'incarnation') == ARGV[1] then return 0 end -- it has one, or was erased since
even_without_room()
redis.call('HSET', KEYS[1], 'state', 'closed', 'closes_at', ARGV[2], 'incarnation', ARGV[1],
           'revoked', ARGV[3], 'reports', ARGV[4])
return 1
