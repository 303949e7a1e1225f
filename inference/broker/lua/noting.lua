-- What a claim notes of the queues that it takes from.

-- How fast the queue moves, for those whom it refuses. Mostly the bucket of this time is there: the last 24 bytes. It
-- expires in time, since it was made.
local function note_drained(queue, jobs, now)
  local name = 'drained:' .. queue
  local kept = call('GET', P .. name) or ''
  local at, before_this = 0, 0
  if #kept > 0 then at, before_this = struct.unpack('<dd', kept, #kept - 23) end
  if at == math.floor(now / HALF_MINUTE.width) then
    call('SETRANGE', P .. name, #kept - 16, struct.pack('<d', before_this + jobs))
  else
    local window = read_window(name, HALF_MINUTE, now)
    add_to_window(window, jobs, 0)
    write_window(window)
  end
end

-- Whether this start is in time, as entries have it; noted at the claim's end, since a command costs more than one
-- start. What was judged before counts no more.
local function judge(t, entry, now)
  if entry.judged then return entry.judged end
  local is_good, starts = is_in_time(tonumber(entry.arrival), t.target_ms, now), t.starts[entry.queue]
  if not starts then
    starts = { in_time = 0, missed = 0 }
    t.starts[entry.queue] = starts
  end
  if is_good then starts.in_time = starts.in_time + 1 else starts.missed = starts.missed + 1 end
  return is_good and '1' or '0'
end

local function note_judged(tiers, now)
  for _, t in ipairs(tiers) do
    for queue, starts in pairs(t.starts) do note_starts(queue, starts.in_time, starts.missed, now) end
  end
end
