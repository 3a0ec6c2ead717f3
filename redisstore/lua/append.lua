-- The atomic step of an append: it takes repeats out of what has been pushed
-- and brings everything else up to date. Lua hashes every string that it
-- touches, so the payload does not pass through here, and the common case
-- handles ids in bulk. The server hashes this text too, twice a call: hence
-- short names.
--
-- KEYS: meta, list, ids, lens [, sessions, projects]
-- ARGV: see step.eval; the last ones are the ids, that of the batch first
local call, meta, list, ids = redis.call, KEYS[1], KEYS[2], KEYS[3]
local field, n, token, sizes, ttl = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[7], tonumber(ARGV[8])
local last = 13 + ARGV[6]

-- Fails when the key is no list; then nothing was pushed either.
local total = call('LLEN', list)
if total < n then
  return redis.error_reply('EXPIRED while the entries were pushed')
end

-- bulk calls a command for the ids, as many at a time as Lua can pass.
local function bulk(cmd)
  local sum = 0
  for a = 14, last, 1000 do
    local got = call(cmd, ids, unpack(ARGV, a, math.min(a + 999, last)))
    if cmd == 'SADD' then
      sum = sum + got
    else
      for j = 1, #got do
        sum = sum + got[j]
      end
    end
  end
  return sum
end

-- sift adds the ids one by one, takes the repeats out of the batch that has
-- been pushed, and their lengths, and returns their places; or nothing if the
-- whole batch has been stored before. The mask has a byte for the id of the
-- batch and for each entry. No entry is empty, so the empty string can mark one.
local function sift()
  local i, mask, out, kept = 14, ARGV[5], {}, {}
  for j = 0, n do
    local new = true
    if string.byte(mask, j + 1) == 49 then
      new = call('SADD', ids, ARGV[i]) == 1
      i = i + 1
      if not new and j == 0 then
        return
      end
    end
    if not new then
      call('LSET', list, j - n - 1, '')
      out[#out + 1] = j
    elseif j > 0 then
      kept[#kept + 1] = string.sub(sizes, 4 * j - 3, 4 * j)
    end
  end
  call('LREM', list, -#out, '')
  sizes = table.concat(kept)
  return out
end

-- expire sees to it that all keys of the session end at the same instant, at
-- least ttl from now. It moves that instant by a bit more, so that it need not
-- visit all keys each time.
local subs = string.sub(meta, 1, -5) .. 'subs'
local function expire(now, x, fresh)
  local most, fields = now + ttl + math.ceil(ttl / 8), {}
  if ttl > 0 and (not x or x < now + ttl or x > most) then
    x = most
    call('HSET', meta, 'x', x)
    call('PEXPIREAT', meta, x)
    fields = call('HKEYS', meta)
  elseif fresh then
    fields = { field }
  end
  if fields[1] then
    call('PEXPIREAT', subs, x)
  end
  for _, f in ipairs(fields) do
    if string.byte(f) == 47 then
      for _, kind in ipairs({ 'list', 'ids', 'lens' }) do
        call('PEXPIREAT', string.sub(meta, 1, -5) .. kind .. f, x)
      end
    end
  end
end

local function append()
  local head = call('HMGET', meta, 'v', field, 'x')
  if head[1] and head[1] ~= '1' then
    return 'FORMAT ' .. head[1]
  end
  local count, known, gen, time, sn = string.match(head[2] or '0 0', '(%d+) (%d+) ?(%S*) ?(%d*) ?(%d*)')
  count = tonumber(count) or -1
  -- These also fail when a key has another type, before anything is changed.
  if total - n ~= count or call('SCARD', ids) ~= tonumber(known) or call('STRLEN', KEYS[4]) ~= 4 * count then
    return 'DAMAGED: ' .. (total - n) .. ' of ' .. count .. ' entries are there'
  end

  local t = call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  if KEYS[5] then
    call('HSET', KEYS[5], ARGV[13], now .. ':' .. token)
    call('HSET', KEYS[6], ARGV[12], now .. ':' .. token)
  end

  local out, added = {}, n
  if known ~= '0' and bulk('SMISMEMBER') > 0 then
    out = sift()
    added = out and n - #out or 0
    known = call('SCARD', ids)
    if not out then
      call('LTRIM', list, 0, -n - 1)
    end
  else
    known = known + bulk('SADD')
  end

  local main, fresh, sum = field == '/', gen == '', nil
  if fresh then
    gen = now .. '-' .. token
    if not main then
      redis.pcall('SADD', subs, field) -- for the day on which meta is lost
    end
  end
  if added > 0 then
    local after = count + added
    local row = after .. ' ' .. known .. ' ' .. gen
    call('APPEND', KEYS[4], sizes)
    if main then
      sum = added == n and tonumber(ARGV[10]) == count and (fresh or gen == ARGV[9])
      row = row .. ' ' .. math.max(now, tonumber(time) or 0) .. ' ' .. (sum and after or tonumber(sn) or 0)
    end
    if sum then
      call('HSET', meta, 'v', '1', field, row, 's', ARGV[11])
    else
      call('HSET', meta, 'v', '1', field, row)
    end
  end
  local x = tonumber(head[3])
  if x or ttl > 0 then
    expire(now, x, fresh)
  end

  local reply = { count, count + added, gen, sum and 1 or 0 }
  if main and not sum then
    reply[5], reply[6] = tonumber(sn) or 0, call('HGET', meta, 's') or ''
    for _, j in ipairs(out or {}) do
      reply[#reply + 1] = j
    end
  end
  return reply
end

local ok, got = pcall(append)
if ok and type(got) == 'table' then
  return got
end
-- Nothing but the push has been done.
call('LTRIM', list, 0, -n - 1)
return redis.error_reply(ok and got or got.err or got)
