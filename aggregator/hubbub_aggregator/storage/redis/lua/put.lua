-- Set fields of a hash, beyond maxmemory, too: for what is small and must get on, or makes room in the end.
-- KEYS hash   ARGV field, value, ...
redis.call('HDEL', KEYS[1], '') -- a script whose first write needs no memory is done beyond maxmemory, too
return redis.call('HSET', KEYS[1], unpack(ARGV))
