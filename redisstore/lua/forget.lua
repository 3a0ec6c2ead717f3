-- Takes members out of an index that were noted long enough ago, and have not
-- been noted again since they were read.
--
-- KEYS: index [, projects]
-- ARGV: age in ms, project, then in turn a member and its note ("" for any)
local t = redis.call('TIME')
local limit = t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[1]
for i = 3, #ARGV, 2 do
  local note = redis.call('HGET', KEYS[1], ARGV[i]) or ''
  if (note == ARGV[i + 1] or ARGV[i + 1] == '') and tonumber(string.match(note, '^%d+') or 0) <= limit then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
if KEYS[2] and redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HDEL', KEYS[2], ARGV[2])
end
return 0
