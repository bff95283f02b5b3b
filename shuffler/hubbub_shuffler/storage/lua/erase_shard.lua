-- Delete the reports of a shard. That it was closed stays known for `margin` seconds after its time; 0 forgets it.
-- KEYS shard, blobs   ARGV clock, incarnation, margin
local shard = redis.call('HMGET', KEYS[1], 'incarnation', 'closes_at')
if shard[1] ~= ARGV[2] then return 0 end
redis.call('UNLINK', KEYS[2])
local margin = tonumber(ARGV[3])
if margin == 0 then
  redis.call('UNLINK', KEYS[1])
else
  redis.call('HSET', KEYS[1], 'state', 'gone')
  local left = math.max(0, tonumber(shard[2]) - clock(ARGV[1])) + margin
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left * 1000))
end
return 1
