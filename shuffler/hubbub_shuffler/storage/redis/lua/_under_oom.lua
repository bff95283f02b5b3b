-- Called before a write that makes room in the end, or that must not wait for room, so that it works beyond maxmemory.
-- Redis 6 and 7 refuse a script there only if its first write may need memory. So the first write deletes a field that
-- no hash has. KEYS[1] is a hash in all of these scripts.
local function even_without_room() redis.call('HDEL', KEYS[1], '') end
