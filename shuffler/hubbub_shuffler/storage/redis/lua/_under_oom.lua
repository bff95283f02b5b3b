-- Before every write that makes room in the end, or that must not wait for room: it is done also beyond maxmemory.
-- A script is refused there only if its first write may need memory (Redis 6 and 7 alike). So the first one deletes
-- a field that nobody has. KEYS[1] is a hash in all of these scripts.
local function even_without_room() redis.call('HDEL', KEYS[1], '') end
