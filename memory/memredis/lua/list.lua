-- Lists the files at a path or below it: path, info, path, info. ARGV: path.
local list = {}
for _, path in ipairs(filesAt(ARGV[1])) do
  list[#list + 1] = path
  list[#list + 1] = redis.call('HGET', KEYS[1], 'i:' .. path)
end
return list
