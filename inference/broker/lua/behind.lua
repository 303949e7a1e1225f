-- What goes before jobs that come now, and how long that takes; as inference/admission/decisions.py.

local function sum_of(hash, names)
  local sum, values = 0, call('HMGET', P .. hash, unpack(names))
  for i = 1, #names do sum = sum + tonumber(values[i] or 0) end
  return sum
end

local function cards(kind, names)
  local sum = 0
  for _, name in ipairs(names) do sum = sum + call('ZCARD', P .. kind .. name) end
  return sum
end

-- Ms until the last of so many jobs begins, of `work` together, in `slots` of which `leases` run.
local function wait_behind(jobs, work, leases, slots)
  local to_end = jobs - math.max(0, slots - leases)
  if to_end <= 0 then return 0 end
  return math.ceil(to_end * work / jobs / slots)
end

-- Jobs that go before the last of these, with these, of a tier as heavy or heavier, and their work: the scheduler serves
-- it no more than by weight.
local function before_by_weight(tier, work)
  local jobs = cards('a:', tier.queues) + cards('r:', tier.queues)
  local all = jobs > 0 and sum_of('work', tier.queues) or 0
  local part = all > 0 and math.min(1, tier.ratio * work / all) or 1
  return jobs * part, all * part
end

-- What one of so many jobs of these queues takes, and of those that ask.
local function mean_work(queue, names, jobs) return (sum_of('work', names) + queue.work) / math.max(1, jobs + queue.jobs) end
