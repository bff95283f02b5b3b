-- Settle a batch. After the last one of its bucket, the seed is erased, and the reports may be.
-- KEYS batch, due, bucket, planned, spent, counts   ARGV id, token, member, what
local batch = redis.call('HMGET', KEYS[1], 'lease', 'reports', 'name')
if batch[1] ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1]) -- works beyond maxmemory, since it comes first
redis.call('ZREM', KEYS[2], ARGV[1])
local what = batch[3] .. '\31' .. ARGV[4]
if batch[2] ~= '0' then redis.call('HINCRBY', KEYS[6], what .. '\31reports', batch[2]) end
redis.call('HINCRBY', KEYS[6], what .. '\31batches', 1)
local left = redis.call('HINCRBY', KEYS[3], 'batches', -1)
local bucket = redis.call('HMGET', KEYS[3], 'state', 'closes_at', 'left')
if bucket[3] then redis.call('HINCRBY', KEYS[3], 'left', -batch[2]) end
if left == 0 and bucket[1] == 'planned' then
  redis.call('HDEL', KEYS[3], 'seed')
  redis.call('HSET', KEYS[3], 'state', 'spent')
  redis.call('ZREM', KEYS[4], ARGV[3])
  redis.call('ZADD', KEYS[5], bucket[2], ARGV[3])
end
return 1
