-- Keep a newer bundle, if the newest is still the one that its signer knew.
-- KEYS bundle   ARGV last sequence or '', sequence, issued, content, raw
local kept = redis.call('HMGET', KEYS[1], 'sequence', 'raw')
if kept[1] == ARGV[2] and kept[2] == ARGV[5] then return 1 end -- the same call came twice
if (kept[1] or '') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
redis.call('HSET', KEYS[1], 'sequence', ARGV[2], 'issued', ARGV[3], 'content', ARGV[4], 'raw', ARGV[5])
return 1
