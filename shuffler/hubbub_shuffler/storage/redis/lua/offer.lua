-- Make a held batch due now, unless it is already being offered.
-- KEYS batch, due   ARGV clock, id, pause
local due = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or nil)
local batch = redis.call('HMGET', KEYS[1], 'held', 'lease')
if not due or not batch[1] then return 0 end
local now = clock(ARGV[1])
if batch[2] and due > now and due <= now + tonumber(ARGV[3]) then return 0 end
even_without_room()
redis.call('ZADD', KEYS[2], 0, ARGV[2])
return 1
