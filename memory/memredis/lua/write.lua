-- Stores a file. ARGV: path, data, version it must have or '', new version,
-- now in ms, most files, most bytes (0: any), then the directories above.
local info = redis.call('HGET', KEYS[1], 'i:' .. ARGV[1])
local size = 0
if repeated(ARGV[4]) then
  return 'OK'
end
if info then
  local version, length = string.match(info, '^(%S+) (%d+) ')
  if ARGV[3] == '' then
    return 'EXISTS'
  end
  if version ~= ARGV[3] then
    return 'CONFLICT'
  end
  size = tonumber(length)
else
  if ARGV[3] ~= '' then
    return 'CONFLICT'
  end
  local taken = free(ARGV[1])
  if taken then
    return taken
  end
  local files = tonumber(redis.call('HGET', KEYS[1], 'd:/memories') or '0')
  if tonumber(ARGV[6]) > 0 and files + 1 > tonumber(ARGV[6]) then
    return 'LIMIT'
  end
end
local grow = string.len(ARGV[2]) - size
local bytes = tonumber(redis.call('HGET', KEYS[1], 'bytes') or '0')
if grow > 0 and tonumber(ARGV[7]) > 0 and bytes + grow > tonumber(ARGV[7]) then
  return 'LIMIT'
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], 'i:' .. ARGV[1], ARGV[4] .. ' ' .. string.len(ARGV[2]) .. ' ' .. ARGV[5], 'v', '1')
count('bytes', grow)
if not info then
  countAbove(ARGV[1], 1)
end
done(ARGV[4])
return 'OK'
