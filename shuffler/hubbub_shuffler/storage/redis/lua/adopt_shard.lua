-- Make a shard of a closed bucket known again, of which Redis has lost that it was closed, and whose.
-- KEYS shard   ARGV incarnation, closes_at, revoked, reports
if redis.call('HGET', KEYS[1], 'incarnation') == ARGV[1] then return 0 end -- it is, or it was erased since
even_without_room()
redis.call('HSET', KEYS[1], 'state', 'closed', 'closes_at', ARGV[2], 'incarnation', ARGV[1],
           'revoked', ARGV[3], 'reports', ARGV[4])
return 1
