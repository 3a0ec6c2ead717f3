-- Stores a summary that has been brought up to date, unless somebody else has
-- done so or the transcript is another one.
--
-- KEYS: meta
-- ARGV: generation, position it was folded to before, position now, summary
local head, gen, time, sn = string.match(redis.call('HGET', KEYS[1], '/') or '', '^(%d+ %d+ (%S+) (%d+)) (%d+)$')
if gen == ARGV[1] and sn == ARGV[2] then
  redis.call('HSET', KEYS[1], '/', head .. ' ' .. ARGV[3], 's', ARGV[4])
end
return 0
