-- Hold a batch, or another turn, for a while. Returns 0 if another holder has it.
-- KEYS lease   ARGV holder, milliseconds
local held = redis.call('GET', KEYS[1])
-- a lease that lasts much longer than this one was taken under a clock that was ahead, and would last for as long
local longest = math.max(10 * tonumber(ARGV[2]), 600000)
if held and held ~= ARGV[1] and redis.call('PTTL', KEYS[1]) <= longest then return 0 end
redis.call('DEL', KEYS[1]) -- Redis runs a script beyond maxmemory if its first write needs no memory
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
