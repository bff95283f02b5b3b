-- Forget a batch while it is pending.
-- KEYS batches   ARGV id
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if kept and kept:sub(1, 1) == 'p' then return redis.call('HDEL', KEYS[1], ARGV[1]) end
return 0
