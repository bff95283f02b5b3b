-- Accept a pending batch, if nothing was accepted for its pair since it was read and its blobs are still there.
-- KEYS batches, version, counts, nonces   ARGV id, version, entry
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if not kept or kept:sub(1, 1) ~= 'p' then return 'settled' end
if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[2] then return 'conflict' end
if redis.call('EXISTS', KEYS[3], KEYS[4]) ~= 2 then return 'gone' end
redis.call('PERSIST', KEYS[3])
redis.call('PERSIST', KEYS[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('INCR', KEYS[2])
return 'accepted'
