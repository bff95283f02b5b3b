-- Take a release off the lists. Until its blobs are gone, it is listed as doomed.
-- KEYS releases, releases of the metric, doomed, marks   ARGV member
redis.call('ZREM', KEYS[2], ARGV[1])
local found = redis.call('ZREM', KEYS[1], ARGV[1])
if found == 1 then
  redis.call('ZADD', KEYS[3], 0, ARGV[1])
  redis.call('HINCRBY', KEYS[4], 'erased', 1)
end
return found
