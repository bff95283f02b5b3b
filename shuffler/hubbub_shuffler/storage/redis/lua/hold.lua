-- Extend the lease of a batch, or with sent = 0 or 1 give it back until then. Returns 0 if another worker has it now.
-- KEYS batch, due   ARGV clock, id, token, seconds, sent
if redis.call('HGET', KEYS[1], 'lease') ~= ARGV[3] then return 0 end
even_without_room()
if ARGV[5] ~= '' then
  redis.call('HDEL', KEYS[1], 'lease')
  redis.call('HSET', KEYS[1], 'sent', ARGV[5])
  redis.call('HINCRBY', KEYS[1], 'attempts', 1)
end
redis.call('ZADD', KEYS[2], string.format('%.6f', clock(ARGV[1]) + tonumber(ARGV[4])), ARGV[2])
return 1
