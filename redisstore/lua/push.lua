-- Comes before append.lua when the entries have not been pushed by plain RPUSH:
-- they lie in a list of their own, or follow the other arguments.
local function push(list, n, stage, from)
  if stage == '' then
    for a = from, #ARGV, 1000 do
      redis.call('RPUSH', list, unpack(ARGV, a, math.min(a + 999, #ARGV)))
    end
  elseif redis.call('LLEN', stage) ~= n then
    return redis.error_reply('STAGED entries were lost before they were moved')
  elseif redis.call('EXISTS', list) == 0 then
    redis.call('PERSIST', stage)
    redis.call('RENAME', stage, list)
  else
    for a = 0, n - 1, 100 do
      redis.call('RPUSH', list, unpack(redis.call('LRANGE', stage, a, a + 99)))
    end
    redis.call('UNLINK', stage)
  end
end
local failed = push(KEYS[2], tonumber(ARGV[2]), ARGV[3], 14 + ARGV[6])
if failed then
  return failed
end
