-- The blobs of a closed shard from an id on, as many as fit. nil if it is not closed or has another incarnation.
-- KEYS shard, blobs   ARGV incarnation, from, bytes, most
local shard = redis.call('HMGET', KEYS[1], 'state', 'incarnation')
if shard[1] ~= 'closed' or shard[2] ~= ARGV[1] then return false end
local bytes, most, step = tonumber(ARGV[3]), tonumber(ARGV[4]), 8
local found, size, at = {}, 0, 0
while #found < most do
  local blobs = redis.call('ZRANGEBYLEX', KEYS[2], '[' .. ARGV[2], '+', 'LIMIT', at, step)
  for _, blob in ipairs(blobs) do
    size = size + #blob
    if #found > 0 and size > bytes then return found end
    found[#found + 1] = blob
  end
  if #blobs < step then return found end
  at = at + step
  -- larger steps for smaller blobs, so that neither a step nor the number of steps is large
  step = math.max(1, math.min(256, most - #found, math.floor((bytes - size) * #found / size)))
end
return found
