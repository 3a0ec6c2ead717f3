-- Notes a member in an index, with the time and the token of the append.
local t = redis.call('TIME')
return redis.call('HSET', KEYS[1], ARGV[1], t[1] * 1000 + math.floor(t[2] / 1000) .. ':' .. ARGV[2])
