-- Forget the place of a batch that was dropped, unless it was sent again.
-- KEYS place   ARGV content and token
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
