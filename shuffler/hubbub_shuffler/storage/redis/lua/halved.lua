-- Replace the number of reports of a metric's last closed period. Returns 1 if the new number is below half of it.
-- KEYS crowds, counts   ARGV name, period, reports
local last = redis.call('HGET', KEYS[1], ARGV[1])
local period, reports
if last then
  period, reports = string.match(last, '^(%d+) (%d+)$')
  if tonumber(ARGV[2]) <= tonumber(period) then return 0 end
end
even_without_room()
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
if not last or 2 * tonumber(ARGV[3]) >= tonumber(reports) then return 0 end
redis.call('HINCRBY', KEYS[2], ARGV[1] .. '\31halved\31batches', 1)
return 1
