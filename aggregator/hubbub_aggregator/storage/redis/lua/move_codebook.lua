-- Let the only codebook start with another period.
-- KEYS codebooks   ARGV first period, the other one
if redis.call('HLEN', KEYS[1]) ~= 1 then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then return 1 end -- the same call came twice
local compiled = redis.call('HGET', KEYS[1], ARGV[1])
if not compiled then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], compiled)
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
