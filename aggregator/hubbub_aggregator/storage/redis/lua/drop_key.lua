-- Erase a key that is not needed.
-- KEYS keys, marks   ARGV id
local found = redis.call('HDEL', KEYS[1], ARGV[1])
if found == 1 then redis.call('HINCRBY', KEYS[2], 'erased', 1) end
return found
