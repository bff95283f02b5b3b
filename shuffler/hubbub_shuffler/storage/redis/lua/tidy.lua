-- Take or keep the place of the one process that has files rewritten, for a while.
-- KEYS place   ARGV token, milliseconds
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1]) -- first, so that the next line works beyond maxmemory
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
