-- Deletes a session, or one transcript of it. Only commands that Redis allows
-- when its memory is full.
--
-- KEYS: meta [, sessions, projects]
-- ARGV: field of the transcript or "" for all, project, session, time limit or ""
local meta = KEYS[1]
local base = string.sub(meta, 1, -6)
local field, project, session, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local chunk = 999

local function transcripts()
  local fields = {}
  for _, f in ipairs(redis.call('HKEYS', meta)) do
    if string.byte(f) == 47 then
      fields[#fields + 1] = f
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
  local n = 0
  for a = 1, #names, chunk do
    n = n + redis.call('UNLINK', unpack(names, a, math.min(a + chunk - 1, #names)))
  end
  return n
end

if limit then
  -- Another host may have written since the session was found to be old.
  local time = string.match(redis.call('HGET', meta, '/') or '', '^%d+ %d+ %S+ (%d+)')
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
  count = redis.call('HDEL', meta, field)
  -- More fields than the fixed ones: something is left.
  empty = redis.call('HLEN', meta) <= 5 and #transcripts() == 0
end
if empty then
  redis.call('UNLINK', meta)
  if KEYS[2] then
    -- A broken index is no reason to keep the session.
    redis.pcall('HDEL', KEYS[2], session)
    if redis.pcall('EXISTS', KEYS[2]) == 0 then
      redis.pcall('HDEL', KEYS[3], project)
    end
  end
end
return { count, empty and 1 or 0 }
