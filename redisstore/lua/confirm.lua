-- Checks that an append is still there, and writes something behind it, so
-- that a WAIT on this connection covers it.
--
-- KEYS: meta
-- ARGV: field, generation, count
local count, gen = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) %d+ (%S+)')
if gen ~= ARGV[2] or tonumber(count) < tonumber(ARGV[3]) then
  return 0
end
redis.call('HSET', KEYS[1], 'w', ARGV[3])
return 1
