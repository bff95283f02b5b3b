-- Set a small value, with an expiry if one is given. This is allowed beyond maxmemory.
-- KEYS name   ARGV value, milliseconds
redis.call('DEL', KEYS[1]) -- Redis runs a script beyond maxmemory if its first write needs no memory
if ARGV[2] then return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return redis.call('SET', KEYS[1], ARGV[1])
