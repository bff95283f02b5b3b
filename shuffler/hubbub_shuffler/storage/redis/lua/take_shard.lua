-- Close a shard for the record that its bucket has now: the record under which it was opened is lost. Returns its number
-- of reports, or -1 if it has a third incarnation.
-- KEYS shard   ARGV incarnation that it had, incarnation, closes_at, revoked
local shard = redis.call('HMGET', KEYS[1], 'state', 'incarnation', 'reports')
if shard[2] == ARGV[2] then return tonumber(shard[3]) end -- the same call came twice
if shard[2] ~= ARGV[1] then return -1 end
even_without_room()
local reports = shard[1] == 'gone' and '0' or shard[3]
redis.call('HSET', KEYS[1], 'state', 'closed', 'closes_at', ARGV[3], 'incarnation', ARGV[2], 'revoked', ARGV[4],
           'reports', reports)
return tonumber(reports)
