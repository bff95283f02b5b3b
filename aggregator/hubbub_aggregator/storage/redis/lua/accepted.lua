-- The marks of accepted batches, in order. Earlier versions kept no marks: what they accepted is entered here first.
-- KEYS accepted, version, batches   ARGV start
local count = tonumber(redis.call('GET', KEYS[2]) or '0')
if redis.call('LLEN', KEYS[1]) ~= count then
  local known, missing = {}, {}
  for _, mark in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do known[mark] = true end
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if all[i + 1]:sub(1, 1) == 'a' then
      local token = cjson.decode(all[i + 1]:sub(2)).blobs
      local mark = all[i] .. token
      if token ~= '' and not known[mark] then missing[#missing + 1] = mark end
    end
  end
  table.sort(missing)
  redis.call('LREM', KEYS[1], 0, '') -- Redis runs a script beyond maxmemory if its first write needs no memory
  for _, mark in ipairs(missing) do redis.call('RPUSH', KEYS[1], mark) end
end
return redis.call('LRANGE', KEYS[1], ARGV[1], -1)
