-- The members of a listing whose time has come, the oldest first; with a pause also those set by a wrong clock.
-- KEYS listing   ARGV clock, ago, skip, most, pause
local now = clock(ARGV[1]) - tonumber(ARGV[2])
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.6f', now), 'LIMIT', ARGV[3], ARGV[4])
if #found == 0 and ARGV[5] ~= '' then
  local beyond = string.format('(%.6f', now + tonumber(ARGV[5]))
  found = redis.call('ZRANGEBYSCORE', KEYS[1], beyond, '+inf', 'LIMIT', ARGV[3], ARGV[4])
end
return found
