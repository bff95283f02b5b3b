-- Refuse a pending batch.
-- KEYS batches   ARGV id, entry
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if not kept or kept:sub(1, 1) ~= 'p' then return 'settled' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 'refused'
