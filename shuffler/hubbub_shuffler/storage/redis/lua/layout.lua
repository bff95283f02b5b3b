-- The layout stored here. Data from before this mark existed has the first layout; an empty Redis gets the newest.
-- KEYS: the mark, then the keys of which one exists once something was stored. ARGV: the first layout, the newest.
local found = redis.call('HGET', KEYS[1], 'layout')
if not found then
  found = ARGV[2]
  for _, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then found = ARGV[1] end
  end
  even_without_room()
  redis.call('HSET', KEYS[1], 'layout', found)
end
return found
