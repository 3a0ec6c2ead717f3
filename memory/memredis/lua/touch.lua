-- Notes that a file was used. ARGV: path, its version, now in ms.
local info = redis.call('HGET', KEYS[1], 'i:' .. ARGV[1])
if info then
  local version, length, used = string.match(info, '^(%S+) (%d+) (%d+)$')
  if version == ARGV[2] and tonumber(used) < tonumber(ARGV[3]) then
    redis.call('HSET', KEYS[1], 'i:' .. ARGV[1], version .. ' ' .. length .. ' ' .. ARGV[3])
  end
end
return 'OK'
