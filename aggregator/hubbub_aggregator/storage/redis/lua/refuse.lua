-- Refuse a pending batch.
-- KEYS batches   ARGV id, entry
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if kept == ARGV[2] then return 'refused' end -- the same call came twice
if not kept or kept:sub(1, 1) ~= 'p' then return 'settled' end
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 'refused'
