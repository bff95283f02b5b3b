-- Keep a new batch. Returns what is kept under this id.
-- KEYS batches   ARGV id, entry
redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
return redis.call('HGET', KEYS[1], ARGV[1])
