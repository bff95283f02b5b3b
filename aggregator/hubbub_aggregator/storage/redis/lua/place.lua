-- Keep which pair a batch belongs to. If something else is kept already, that is returned and nothing changes.
-- KEYS place   ARGV content, token: a fresh one each time, so that an older `unplace` can't undo this
local kept = redis.call('GET', KEYS[1])
if kept and kept:sub(1, #ARGV[1]) ~= ARGV[1] then return kept end
redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2])
return ARGV[1] .. ARGV[2]
