-- Note a verdict in the lists, once: the batch is no longer pending, is counted, and is listed if it is a release or a
-- discard.
-- KEYS pending, noted, counts, releases, releases of the metric, discards of the metric, opened and refused,
-- why periods of the metric were discarded
-- ARGV member, id, release or '', period of a discard or '', record of what was opened and refused or '',
-- reason of a discard or '', name, number, ...
redis.call('ZREM', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
if redis.call('SADD', KEYS[2], ARGV[2]) == 1 then
  for i = 7, #ARGV, 2 do redis.call('HINCRBY', KEYS[3], ARGV[i], ARGV[i + 1]) end
  if ARGV[3] ~= '' then
    redis.call('ZADD', KEYS[4], 0, ARGV[3])
    redis.call('ZADD', KEYS[5], 0, ARGV[3])
  end
  if ARGV[4] ~= '' then redis.call('ZADD', KEYS[6], ARGV[4], ARGV[4]) end
  if ARGV[6] ~= '' then redis.call('HSET', KEYS[8], ARGV[4], ARGV[6]) end
  if ARGV[5] ~= '' then redis.call('HSET', KEYS[7], ARGV[1], ARGV[5]) end
end
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
