-- Comes before append.lua when the entries have not been pushed by plain RPUSH:
-- they lie in pieces, in lists of their own, or follow the other arguments.
local list, ids, n, stage, from = KEYS[2], KEYS[3], tonumber(ARGV[2]), ARGV[3], 14 + ARGV[6]

-- stored reports whether the batch is there already: its own id, which comes
-- first, stands for all of its entries.
local function stored()
  local last = from - 1
  if string.byte(ARGV[5]) == 49 then
    last = 14
  end
  for a = 14, last, 1000 do
    for _, known in ipairs(redis.call('SMISMEMBER', ids, unpack(ARGV, a, math.min(a + 999, last)))) do
      if known == 0 then
        return false
      end
    end
  end
  return true
end

local function push()
  if stage == '' then
    for a = from, #ARGV, 1000 do
      redis.call('RPUSH', list, unpack(ARGV, a, math.min(a + 999, #ARGV)))
    end
    return
  end
  local pieces, name = string.match(stage, '^(%d+) (.*)$')
  if stored() then
    for i = 1, pieces do
      redis.call('UNLINK', name .. '/' .. i)
    end
    -- What follows appends nothing.
    ARGV[2], ARGV[6] = '0', '0'
    return
  end
  local lens, total = {}, 0
  for i = 1, pieces do
    lens[i] = redis.call('LLEN', name .. '/' .. i)
    total = total + lens[i]
  end
  if total ~= n then
    return redis.error_reply('STAGED entries were lost before they were moved')
  end
  for i = 1, pieces do
    for _ = 1, lens[i] do
      redis.call('LMOVE', name .. '/' .. i, list, 'LEFT', 'RIGHT')
    end
  end
end
local failed = push()
if failed then
  return failed
end
