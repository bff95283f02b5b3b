-- Fix what becomes of a closed bucket: batches and a seed, or without a seed only a notice.
-- KEYS bucket, closed, next, due, counts, batch...
-- ARGV member, seed, distinct, duplicates, (id, reports) for each batch
local bucket = redis.call('HMGET', KEYS[1], 'state', 'name', 'size', 'closes_at', 'minimum')
if bucket[1] ~= 'closed' then return 0 end
local discard, parts = ARGV[2] == '', #KEYS - 5
even_without_room()
redis.call('HSET', KEYS[1], 'state', discard and 'spent' or 'planned', 'batches', parts)
if not discard then redis.call('HSET', KEYS[1], 'seed', ARGV[2], 'parts', parts, 'left', ARGV[3]) end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], bucket[4], ARGV[1])
for i = 1, parts do
  redis.call('HSET', KEYS[5 + i], 'bucket', ARGV[1], 'name', bucket[2], 'size', bucket[3], 'closes_at', bucket[4],
             'minimum', bucket[5], 'kind', discard and 'discard' or 'batch', 'part', i - 1, 'parts', parts,
             'reports', ARGV[4 + 2 * i], 'sent', 0, 'attempts', 0)
  redis.call('ZADD', KEYS[4], 0, ARGV[3 + 2 * i])
end
local function count(what, by)
  if by > 0 then redis.call('HINCRBY', KEYS[5], bucket[2] .. '\31' .. what, by) end
end
local distinct, duplicates = tonumber(ARGV[3]), tonumber(ARGV[4])
count('ingested\31reports', distinct + duplicates)
count('duplicate\31reports', duplicates)
if discard then
  count('discarded\31reports', distinct)
  count('discarded\31batches', 1)
end
return 1
