-- Let a bucket go on with its remaining reports, and count the others as damaged. Returns 0 if it changed meanwhile.
-- A planned bucket becomes closed again, unless one of its batches was sent or settled. If its only batch has lost its
-- record, it becomes closed again too: whether that was sent or not, the next one has the same members.
-- KEYS bucket, planned, closed, due, counts, batch...
-- ARGV member, incarnation, reports that it should have, reports that are there, id of each batch
local bucket = redis.call('HMGET', KEYS[1], 'state', 'incarnation', 'reports', 'name', 'closes_at', 'batches',
                          'parts', 'left')
local planned, parts = bucket[1] == 'planned', #KEYS - 5
if not planned and bucket[1] ~= 'closed' then return 0 end
if bucket[2] ~= ARGV[2] or bucket[3] ~= ARGV[3] then return 0 end
local distinct = 0
if planned and parts == 0 and bucket[6] == '1' and bucket[7] == '1' then
  distinct = tonumber(bucket[8])
elseif planned then
  if parts ~= tonumber(bucket[6]) then return 0 end
  for i = 6, #KEYS do
    local batch = redis.call('HMGET', KEYS[i], 'reports', 'sent', 'parts')
    if batch[2] ~= '0' or tonumber(batch[3]) ~= parts then return 0 end
    distinct = distinct + tonumber(batch[1])
  end
end
even_without_room()
local function count(what, by)
  if by ~= 0 then redis.call('HINCRBY', KEYS[5], bucket[4] .. '\31' .. what, by) end
end
local reports, there = tonumber(ARGV[3]), tonumber(ARGV[4])
if planned then -- the next plan counts the reports that it reads, and the duplicates
  for i = 6, #KEYS do
    redis.call('DEL', KEYS[i])
    redis.call('ZREM', KEYS[4], ARGV[i - 1])
  end
  redis.call('HDEL', KEYS[1], 'seed', 'parts', 'left')
  redis.call('HSET', KEYS[1], 'state', 'closed', 'batches', 0)
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('ZADD', KEYS[3], bucket[5], ARGV[1])
  count('ingested\31reports', -reports)
  count('duplicate\31reports', distinct - reports)
end
redis.call('HSET', KEYS[1], 'reports', there)
count('ingested\31reports', reports - there)
count('damaged\31reports', reports - there)
count('damaged\31batches', 1)
return 1
