-- Erase the keys that end at or before a period and before every pending batch. Returns their last period, or -1.
-- KEYS keys, marks, pending   ARGV period
local limit, erased = tonumber(ARGV[1]), -1
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if first[2] then limit = math.min(limit, tonumber(first[2]) - 1) end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local last = cjson.decode(all[i + 1]).last
  if last <= limit then
    redis.call('HDEL', KEYS[1], all[i])
    erased = math.max(erased, last)
  end
end
if erased >= 0 then
  local before = tonumber(redis.call('HGET', KEYS[2], 'forgotten') or '-1')
  redis.call('HSET', KEYS[2], 'forgotten', string.format('%d', math.max(before, erased)))
  redis.call('HINCRBY', KEYS[2], 'erased', 1)
end
return erased
