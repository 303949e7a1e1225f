-- How fast a queue drains, and how long its jobs wait, by those that were claimed of late; as inference/admission/drained.py.
local SINCE_MS = 2000     -- what a queue drained in less time than this is chance
local LEAST_JOBS = 8      -- so are fewer of them, to refuse by
local LONGEST_GAP = 2     -- buckets without a claim: after more of them a queue begins to move anew

-- The bucket since which claims go on until now, whole: before, the queue may have been paused, or its engine loading.
local function row_start(buckets, now)
  local first = #buckets
  while first > 1 and buckets[first].at - buckets[first - 1].at <= LONGEST_GAP + 1 do first = first - 1 end
  local at = buckets[first].at
  return at > math.floor(now / HALF_MINUTE.width) - HALF_MINUTE.count and at + 1 or at
end

-- Jobs that were claimed since the oldest came that did not come back (waiting.lua), as far back as is known, in `ms` of
-- whole buckets. `waited` is how long that one has waited while others were claimed: 0 once none is, since that is for
-- another reason. nil: nothing is known.
local function drained_of(queue, now)
  local oldest, buckets = oldest_of(queue), read_window('drained:' .. queue, HALF_MINUTE, now).buckets
  if not oldest or #buckets == 0 then return nil end
  local width, jobs = HALF_MINUTE.width, 0
  local from = math.max(oldest, row_start(buckets, now) * width, tonumber(call('GET', P .. 'back:' .. queue) or 0))
  local since = math.ceil(from / width) * width
  for _, bucket in ipairs(buckets) do
    if bucket.at * width >= since then jobs = jobs + bucket.requests end
  end
  local is_moving = buckets[#buckets].at >= math.floor(now / width) - 1
  return { jobs = jobs, ms = now - since, waited = is_moving and math.max(0, now - from) or 0 }
end

local function tells(drained) return drained and drained.ms >= SINCE_MS and drained.jobs > 0 end

-- Jobs per ms that leave the queue: as measured, else as expected.
local function drain_of(queue, expected, now)
  local drained = drained_of(queue, now)
  return tells(drained) and drained.jobs / drained.ms or expected
end

-- Ms that the last of so many jobs would wait, by what was measured; 0 where nothing was.
local function measured_wait(queue, jobs, now)
  local drained = drained_of(queue, now)
  local is_rate = tells(drained) and drained.jobs >= LEAST_JOBS
  local by_drain = is_rate and math.ceil(jobs * drained.ms / drained.jobs) or 0
  return math.max(drained and drained.waited or 0, by_drain)
end
