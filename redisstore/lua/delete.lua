-- Deletes a session, or one transcript of it. Only commands that Redis allows
-- when its memory is full. A key of another type is no reason to fail: what
-- cannot be read can still be deleted.
--
-- KEYS: meta [, sessions, projects]
-- ARGV: field of the transcript or "" for all, project, session, time limit or ""
local meta = KEYS[1]
local base = string.sub(meta, 1, -6)
local subs = base .. ':subs'
local field, project, session, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local chunk = 999

-- transcripts returns the fields of all. Meta may be gone or be no hash.
local function transcripts()
  local fields, seen = {}, {}
  for _, list in ipairs({ redis.pcall('HKEYS', meta), redis.pcall('SMEMBERS', subs) }) do
    for _, f in ipairs(list) do
      if string.byte(f) == 47 and not seen[f] then
        seen[f] = true
        fields[#fields + 1] = f
      end
    end
  end
  return fields
end

local function drop(fields)
  local names = {}
  for _, f in ipairs(fields) do
    names[#names + 1] = base .. ':list' .. f
    names[#names + 1] = base .. ':ids' .. f
    names[#names + 1] = base .. ':lens' .. f
  end
  for a = 1, #names, chunk do
    redis.call('UNLINK', unpack(names, a, math.min(a + chunk - 1, #names)))
  end
end

if limit then
  -- Another host may have written since the session was found to be old.
  local head = redis.pcall('HMGET', meta, 'v', '/')
  local time = head[1] == '1' and string.match(head[2] or '', '^%d+ %d+ %S+ (%d+)')
  if not time or tonumber(time) >= limit then
    return { 0, 0 }
  end
end

local count, empty
if field == '' then
  local fields = transcripts()
  count, empty = #fields, true
  drop(fields)
  drop({ '/' })
else
  drop({ field })
  redis.pcall('SREM', subs, field)
  count = redis.pcall('HDEL', meta, field)
  if type(count) == 'table' then
    -- It is no hash, so it holds nothing.
    count = redis.call('UNLINK', meta)
  end
  -- More fields than the fixed ones: something is left.
  empty = redis.call('HLEN', meta) <= 5 and #transcripts() == 0 and redis.call('EXISTS', base .. ':list/') == 0
end
if empty then
  redis.call('UNLINK', meta, subs)
  if KEYS[2] then
    -- A broken index is no reason to keep the session.
    redis.pcall('HDEL', KEYS[2], session)
    if redis.pcall('EXISTS', KEYS[2]) == 0 then
      redis.pcall('HDEL', KEYS[3], project)
    end
  end
end
return { count, empty and 1 or 0 }
