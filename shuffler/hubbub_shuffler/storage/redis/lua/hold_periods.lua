-- Keep what begun periods are held to, unless another process wrote since it was read. The same call may come twice.
-- KEYS held   ARGV before, after
local kept = redis.call('GET', KEYS[1]) or ''
if kept == ARGV[2] then return 1 end
if kept ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1]) -- first, so that the next line works beyond maxmemory
redis.call('SET', KEYS[1], ARGV[2])
return 1
