-- Count that something was removed, which the files of Redis still have. Beyond maxmemory, too, since it makes room: a
-- script whose first write needs no memory is done.
-- KEYS marks
redis.call('HDEL', KEYS[1], '')
return redis.call('HINCRBY', KEYS[1], 'removed', 1)
