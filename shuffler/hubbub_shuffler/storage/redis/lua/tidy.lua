-- One process at a time has files rewritten: take or keep that place for a while.
-- KEYS place   ARGV token, milliseconds
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1]) -- first, so that the next line is done also beyond maxmemory
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
