-- Say that a body of this size is coming. Returns how many bytes of others were announced before and have not come.
-- An announcement of a process that died ends after a while, by the server's clock.
-- KEYS sizes, ends   ARGV name, size, seconds
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
local now = tonumber(redis.call('TIME')[1])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
end
redis.call('HDEL', KEYS[1], ARGV[1]) -- the same call came twice
local others = 0
for _, size in ipairs(redis.call('HVALS', KEYS[1])) do others = others + tonumber(size) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[3]), ARGV[1])
return others
