-- Set fields of a hash, even beyond maxmemory: for small values that can't wait, or that make room in the end.
-- KEYS hash   ARGV field, value, ...
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
return redis.call('HSET', KEYS[1], unpack(ARGV))
