-- Forget a batch while it is pending and has this body.
-- KEYS batches   ARGV id, name of the body
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if not kept or kept:sub(1, 1) ~= 'p' or cjson.decode(kept:sub(2)).spool ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
