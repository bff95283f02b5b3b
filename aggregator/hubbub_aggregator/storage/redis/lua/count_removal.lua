-- Count the removal of something that the files of Redis still hold. This is allowed beyond maxmemory, since it makes
-- room: Redis runs a script whose first write needs no memory.
-- KEYS marks
redis.call('HDEL', KEYS[1], '')
return redis.call('HINCRBY', KEYS[1], 'removed', 1)
