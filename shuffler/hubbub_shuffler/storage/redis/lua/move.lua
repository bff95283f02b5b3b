-- Move a bucket from one listing to another, if it is where the caller expects it.
-- KEYS bucket, from, to   ARGV member, incarnation, from, to, field, value, ...
local bucket = redis.call('HMGET', KEYS[1], 'state', 'incarnation', 'closes_at')
if bucket[1] ~= ARGV[3] or bucket[2] ~= ARGV[2] then return 0 end
even_without_room()
redis.call('HSET', KEYS[1], 'state', ARGV[4])
for i = 5, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], bucket[3], ARGV[1])
return 1
