-- Give a refused batch back to be offered again, with the reason and its times. Returns 0 if another worker has it now.
-- KEYS batch, due   ARGV clock, id, token, seconds, why, since, until
local batch = redis.call('HMGET', KEYS[1], 'lease', 'held')
if batch[1] ~= ARGV[3] then return 0 end
even_without_room()
if not batch[2] then redis.call('HSET', KEYS[1], 'since', ARGV[6]) end
redis.call('HDEL', KEYS[1], 'lease')
redis.call('HSET', KEYS[1], 'held', ARGV[5], 'until', ARGV[7], 'sent', 0)
redis.call('HINCRBY', KEYS[1], 'attempts', 1)
redis.call('ZADD', KEYS[2], string.format('%.6f', clock(ARGV[1]) + tonumber(ARGV[4])), ARGV[2])
return 1
