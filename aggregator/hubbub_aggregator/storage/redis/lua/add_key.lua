-- Keep a key, and revoke another in the same step. No change if the new key's id is in use, or if it is live and one of
-- its periods has a live key.
-- KEYS keys, marks   ARGV id, first, last, key, id of the revoked one or ''
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[4] then return 1 end -- the same call came twice
local first, last, revoked = tonumber(ARGV[2]), tonumber(ARGV[3]), nil
local all, live = redis.call('HGETALL', KEYS[1]), not cjson.decode(ARGV[4]).revoked
for i = 1, #all, 2 do
  local key = cjson.decode(all[i + 1])
  if all[i] == ARGV[1] then return 0 end
  if all[i] == ARGV[5] then
    revoked = key
  elseif live and not key.revoked and key.first <= last and key.last >= first then
    return 0
  end
end
redis.call('HDEL', KEYS[1], '') -- Redis runs a script beyond maxmemory if its first write needs no memory
if revoked then
  revoked.revoked = true
  revoked.private = nil
  redis.call('HSET', KEYS[1], ARGV[5], cjson.encode(revoked))
  redis.call('HINCRBY', KEYS[2], 'erased', 1)
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
return 1
