-- Deletes the files last used before a time in ms, and returns their paths.
-- ARGV: time.
local gone = {}
for _, path in ipairs(filesAt('/memories')) do
  local used = string.match(redis.call('HGET', KEYS[1], 'i:' .. path), ' (%d+)$')
  if tonumber(used) < tonumber(ARGV[1]) then
    remove(path)
    gone[#gone + 1] = path
  end
end
return gone
