-- Delete even the record that a bucket was closed, unless a notice of it is still to be sent.
-- KEYS bucket, gone   ARGV member
local bucket = redis.call('HMGET', KEYS[1], 'state', 'batches')
if bucket[1] ~= 'gone' or bucket[2] ~= '0' then return 0 end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
