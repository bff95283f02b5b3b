-- Close a shard, even one that was never used. Returns its number of reports, or -1 if it has another incarnation.
-- KEYS shard   ARGV incarnation, closes_at, revoked
even_without_room()
local shard = redis.call('HMGET', KEYS[1], 'state', 'incarnation', 'reports')
if not shard[1] then
  redis.call('HSET', KEYS[1], 'state', 'closed', 'closes_at', ARGV[2], 'incarnation', ARGV[1],
             'reports', 0, 'revoked', ARGV[3])
  return 0
end
if shard[2] ~= ARGV[1] then return -1 end
if shard[1] == 'open' then redis.call('HSET', KEYS[1], 'state', 'closed', 'revoked', ARGV[3]) end
return tonumber(shard[3])
