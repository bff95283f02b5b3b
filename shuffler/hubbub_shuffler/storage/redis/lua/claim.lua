-- Lease one batch if it is due, or was set by a wrong clock. nil if it is not free; an empty answer if Redis lost it.
-- KEYS batch, due   ARGV clock, id, token, lease, pause, held: if not '', only a held batch is leased, due or not
local due = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[2]) or nil)
local now = clock(ARGV[1])
if not due then return false end
local early = due > now and due <= now + tonumber(ARGV[5])
if ARGV[6] ~= '' then
  local batch = redis.call('HMGET', KEYS[1], 'held', 'lease')
  early = not batch[1] or (batch[2] and early)
end
if early then return false end
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('ZREM', KEYS[2], ARGV[2])
  return {}
end
even_without_room()
redis.call('HSET', KEYS[1], 'lease', ARGV[3])
redis.call('ZADD', KEYS[2], string.format('%.6f', now + tonumber(ARGV[4])), ARGV[2])
return redis.call('HMGET', KEYS[1], 'bucket', 'name', 'size', 'closes_at', 'minimum',
                  'kind', 'part', 'parts', 'reports', 'sent', 'attempts', 'held', 'until')
