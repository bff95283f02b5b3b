-- The members of a listing that are due, the oldest first. With a pause, also those set by a wrong clock.
-- KEYS listing   ARGV clock, skip, most, pause
local now = clock(ARGV[1])
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.6f', now), 'LIMIT', ARGV[2], ARGV[3])
if #found == 0 and ARGV[4] ~= '' then
  local beyond = string.format('(%.6f', now + tonumber(ARGV[4]))
  found = redis.call('ZRANGEBYSCORE', KEYS[1], beyond, '+inf', 'LIMIT', ARGV[2], ARGV[3])
end
return found
