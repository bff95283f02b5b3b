-- Give up a closed or planned bucket with its remaining batches, and count it as damaged. Returns how many reports.
-- KEYS bucket, planned, closed, spent, due, counts, batch...   ARGV member, incarnation, id of each batch
local bucket = redis.call('HMGET', KEYS[1], 'state', 'incarnation', 'reports', 'name', 'closes_at', 'left')
if bucket[2] ~= ARGV[2] or (bucket[1] ~= 'planned' and bucket[1] ~= 'closed') then return 0 end
even_without_room()
local lost = 0
for i = 7, #KEYS do
  lost = lost + tonumber(redis.call('HGET', KEYS[i], 'reports') or 0)
  redis.call('DEL', KEYS[i])
  redis.call('ZREM', KEYS[5], ARGV[i - 4])
end
if bucket[6] then lost = tonumber(bucket[6]) end -- with the reports of batches whose records are lost
local name = bucket[4] .. '\31'
if bucket[1] == 'closed' then -- no plan has counted its reports
  lost = tonumber(bucket[3])
  redis.call('HINCRBY', KEYS[6], name .. 'ingested\31reports', lost)
end
redis.call('HINCRBY', KEYS[6], name .. 'damaged\31reports', lost)
redis.call('HINCRBY', KEYS[6], name .. 'damaged\31batches', 1)
redis.call('HDEL', KEYS[1], 'seed', 'parts', 'left')
redis.call('HSET', KEYS[1], 'state', 'spent', 'batches', 0)
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[4], bucket[5], ARGV[1])
return lost
