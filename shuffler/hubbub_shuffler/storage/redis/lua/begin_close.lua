-- Move a bucket from open to closing. From here on it will be closed, by this process or another.
-- KEYS bucket, open, closing   ARGV a time that has certainly been reached, member, revoked
local bucket = redis.call('HMGET', KEYS[1], 'state', 'closes_at')
if bucket[1] ~= 'open' then return 0 end
if ARGV[3] == '0' and tonumber(ARGV[1]) < tonumber(bucket[2]) then return 0 end
even_without_room()
redis.call('HSET', KEYS[1], 'state', 'closing', 'revoked', ARGV[3])
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[3], bucket[2], ARGV[2])
return 1
