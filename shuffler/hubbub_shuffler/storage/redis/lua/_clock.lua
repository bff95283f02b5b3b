-- Before every script: its time is the one that is given. Without, the server's, for leases only.
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
