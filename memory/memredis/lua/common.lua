-- What the scripts share. KEYS[1] is the hash of the scope, KEYS[2] the list of
-- the names of the last operations.
local format = redis.call('HGET', KEYS[1], 'v')
if format and format ~= '1' then
  return redis.error_reply('FORMAT ' .. format)
end

-- repeated says whether the operation with this name has been done before: the
-- reply to it was lost, and it comes again.
local function repeated(name)
  return redis.call('LPOS', KEYS[2], name)
end

-- done notes the name of an operation, for a thousand others and a day.
local function done(name)
  redis.call('LPUSH', KEYS[2], name)
  redis.call('LTRIM', KEYS[2], 0, 999)
  redis.call('EXPIRE', KEYS[2], 86400)
end

-- count adds to a number, and leaves none that is 0.
local function count(field, n)
  if n ~= 0 and redis.call('HINCRBY', KEYS[1], field, n) == 0 then
    redis.call('HDEL', KEYS[1], field)
  end
end

-- countAbove changes the number of files in each directory above a path.
local function countAbove(path, n)
  local at = string.find(path, '/', 2, true)
  while at do
    count('d:' .. string.sub(path, 1, at - 1), n)
    at = string.find(path, '/', at + 1, true)
  end
end

-- free says why a new file or directory cannot have a path.
local function free(path)
  local at = string.find(path, '/', 11, true)
  while at do
    if redis.call('HEXISTS', KEYS[1], 'i:' .. string.sub(path, 1, at - 1)) == 1 then
      return 'NOTDIRECTORY'
    end
    at = string.find(path, '/', at + 1, true)
  end
  if redis.call('HEXISTS', KEYS[1], 'i:' .. path) == 1 or redis.call('HEXISTS', KEYS[1], 'd:' .. path) == 1 then
    return 'EXISTS'
  end
  return nil
end

-- filesAt returns the paths of the files at a path or below it.
local function filesAt(path)
  if redis.call('HEXISTS', KEYS[1], 'i:' .. path) == 1 then
    return { path }
  end
  local found = {}
  if redis.call('HEXISTS', KEYS[1], 'd:' .. path) == 1 then
    local start = 'i:' .. path .. '/'
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
      if string.sub(field, 1, string.len(start)) == start then
        found[#found + 1] = string.sub(field, 3)
      end
    end
  end
  return found
end

-- remove takes a file away.
local function remove(path)
  local info = redis.call('HGET', KEYS[1], 'i:' .. path)
  redis.call('HDEL', KEYS[1], path, 'i:' .. path)
  count('bytes', -tonumber(string.match(info, '^%S+ (%d+) ')))
  countAbove(path, -1)
end
