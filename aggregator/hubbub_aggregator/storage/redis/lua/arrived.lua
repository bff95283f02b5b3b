-- Say how many bytes of an announced body are still to come; with none, that nothing more will come of it.
-- KEYS sizes, ends   ARGV name, bytes
if ARGV[2] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return redis.call('ZREM', KEYS[2], ARGV[1])
end
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
