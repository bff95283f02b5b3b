-- Accept a pending batch, if nothing was accepted for its pair since it was read and its blobs are still there.
-- KEYS batches, version, accepted, counts, nonces
-- ARGV id, version, entry, mark, and if it is to be compared: the last mark at that version, '' for none
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if kept == ARGV[3] then return 'accepted' end -- the same call came twice
if not kept or kept:sub(1, 1) ~= 'p' then return 'settled' end
if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[2] then return 'outdated' end
-- the same number may mean other batches: a failover loses the last ones, and others are accepted in their place
if ARGV[5] and (redis.call('LINDEX', KEYS[3], -1) or '') ~= ARGV[5] then return 'outdated' end
if redis.call('EXISTS', KEYS[4], KEYS[5]) ~= 2 then return 'gone' end
redis.call('PERSIST', KEYS[4])
redis.call('PERSIST', KEYS[5])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('INCR', KEYS[2])
redis.call('RPUSH', KEYS[3], ARGV[4])
return 'accepted'
