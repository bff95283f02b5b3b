-- Delete the reports of a shard. With known = 1, the record that it was closed is kept and never expires.
-- KEYS shard, blobs   ARGV incarnation, known
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
redis.call('UNLINK', KEYS[2]) -- works beyond maxmemory, since it comes first
if ARGV[2] == '0' then
  redis.call('UNLINK', KEYS[1])
else
  redis.call('HSET', KEYS[1], 'state', 'gone')
end
return 1
