-- Record the new layout, unless another process has already brought it further. This works beyond maxmemory: waiting
-- reports can only leave once the new software runs.
-- KEYS the mark   ARGV layout
if tonumber(redis.call('HGET', KEYS[1], 'layout') or 0) < tonumber(ARGV[1]) then
  even_without_room()
  redis.call('HSET', KEYS[1], 'layout', ARGV[1])
end
return 1
