-- Renames a file or a directory. ARGV: from, to, name of the operation.
if repeated(ARGV[3]) then
  return 'OK'
end
local files = filesAt(ARGV[1])
if #files == 0 then
  return 'NOTFOUND'
end
local taken = free(ARGV[2])
if taken then
  return taken
end
for _, path in ipairs(files) do
  local to = ARGV[2] .. string.sub(path, string.len(ARGV[1]) + 1)
  redis.call('HSET', KEYS[1], to, redis.call('HGET', KEYS[1], path), 'i:' .. to, redis.call('HGET', KEYS[1], 'i:' .. path))
  redis.call('HDEL', KEYS[1], path, 'i:' .. path)
  countAbove(path, -1)
  countAbove(to, 1)
end
done(ARGV[3])
return 'OK'
