-- What a claim notes of the queues that it takes from.

-- How fast the queue moves, for those whom it refuses.
local function note_drained(queue, jobs)
  local window = read_window('drained:' .. queue, HALF_MINUTE, now)
  add_to_window(window, jobs, 0)
  write_window(window)
end

-- Whether this start is in time, as entries have it; noted at the claim's end, since a command costs more than one
-- start. What was judged before counts no more.
local function judge(t, entry)
  if entry.judged then return entry.judged end
  local is_good, starts = is_in_time(tonumber(entry.arrival), t.target_ms, now), t.starts[entry.queue]
  if not starts then
    starts = { in_time = 0, missed = 0 }
    t.starts[entry.queue] = starts
  end
  if is_good then starts.in_time = starts.in_time + 1 else starts.missed = starts.missed + 1 end
  return is_good and '1' or '0'
end

local function note_judged()
  for _, t in ipairs(tiers) do
    for queue, starts in pairs(t.starts) do note_starts(queue, starts.in_time, starts.missed, now) end
  end
end
