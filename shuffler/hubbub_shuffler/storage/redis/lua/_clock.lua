-- Prefix of every script: the time is the given one. Without one it is the server's, for leases only.
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
