-- Which of a queue's jobs started in time, for its objective: two rings of buckets, of a minute and of a quarter of an
-- hour, each with the number of its time, jobs in time, jobs that missed; as inference/objectives.py. A job counts once:
-- at its first start, or at its end if that comes before. They decide nothing: lost with Redis, they begin anew.

local RINGS = { { at = 0, width = 60000, count = 61 }, { at = 732, width = 900000, count = 97 } }    -- 12 bytes a bucket
local DAY_MS = '87300000'         -- and the bucket under way

local function note_starts(queue, in_time, missed, now)
  local key, is_new = P .. 'starts:' .. queue, false
  for _, ring in ipairs(RINGS) do
    local number = math.floor(now / ring.width)
    local at = ring.at + number % ring.count * 12
    local kept, of, met, failed = call('GETRANGE', key, at, at + 11), 0, 0, 0
    if #kept == 12 then of, met, failed = struct.unpack('<I4I4I4', kept) end
    if of ~= number then is_new, met, failed = true, 0, 0 end
    call('SETRANGE', key, at, struct.pack('<I4I4I4', number, math.max(0, met + in_time), failed + missed))
  end
  if is_new then call('PEXPIRE', key, DAY_MS) end
end

-- Whether a job starts in time that came at `arrival`; below 0: whenever it starts, since it did not expire.
local function is_in_time(arrival, target_ms, now) return target_ms < 0 or now - arrival <= target_ms end

-- It will not start any more, and that is a miss if it waited for longer than `target_ms`.
local function note_gone(entry, target_ms, now)
  if entry.judged or is_in_time(tonumber(entry.arrival), target_ms, now) then return end
  note_starts(entry.queue, 0, 1, now)
end

-- It expired though it was claimed. What its claim found to be in time was not.
local function note_expired(entry, now)
  if entry.judged == '1' then return note_starts(entry.queue, -1, 1, now) end
  if not entry.judged then note_starts(entry.queue, 0, 1, now) end
end
