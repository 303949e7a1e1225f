-- How many jobs of other tenants have their turn before one: estimated from when each tenant's next turn is, and what a
-- turn adds to its pass; as if all its jobs were as its next.
local TENANTS = 256    -- so many are looked at, those whose turns come first; others are taken to be like them
local CLOSE = 1e-6     -- sums of doubles that should be the same number of turns

local function pair(list)
  local names, values = {}, {}
  for i = 1, #list, 2 do names[#names + 1], values[#values + 1] = list[i], tonumber(list[i + 1]) end
  return names, values
end

local lines = {}    -- by index

-- The tenants of a set of lengths, those whose turns come first.
local function line_of(group, set)
  if lines[set.index] then return lines[set.index] end
  local names, turns = pair(call('ZRANGE', set.index, 0, TENANTS - 1, 'WITHSCORES'))
  local line = { tenants = call('ZCARD', set.index) }
  local passes = call('HMGET', P .. 'pass:' .. group.name, unpack(names))
  local jobs = call('HMGET', P .. 'busy:' .. group.name, unpack(names))
  for i, name in ipairs(names) do
    local step = turns[i] - tonumber(passes[i] or 0)
    line[i] = { tenant = name, turn = turns[i], step = step, jobs = tonumber(jobs[i] or 0) }
  end
  lines[set.index] = line
  return line
end

-- The same where no worker has claimed yet: of all tenants with work in the tier, as if all jobs were of one size.
local function line_of_unserved(group, estimate)
  local names, jobs = pair(call('HRANDFIELD', P .. 'busy:' .. group.name, TENANTS, 'WITHVALUES'))
  local line = { tenants = call('HLEN', P .. 'busy:' .. group.name) }
  for i, name in ipairs(names) do
    local step = estimate / weight_of(name)
    line[i] = { tenant = name, turn = pass_of(group, name) + step, step = step, jobs = jobs[i] }
  end
  return line
end

-- How many of another tenant's jobs have their turn by then. Of equal turns the first is that of who is first by name.
local function jobs_by(turn, other, tenant)
  local turns = (turn - other.turn) / math.max(other.step, CLOSE)
  local before_it = before(other.tenant, tenant) and math.floor(turns + CLOSE) + 1 or math.ceil(turns - CLOSE)
  return math.max(0, math.min(other.jobs, before_it))
end

-- Of a tenant whose job is behind so many of its own.
local function others_before(group, set, tenant, estimate, own)
  local line = set and line_of(group, set) or line_of_unserved(group, estimate)
  local pass = pass_of(group, tenant)
  local first = set and tonumber(call('ZSCORE', set.index, tenant)) or pass + estimate / weight_of(tenant)
  local turn, count = first + own * (first - pass), 0
  for _, other in ipairs(line) do
    if other.tenant ~= tenant then count = count + jobs_by(turn, other, tenant) end
  end
  local is_over = #line > 0 and turn > line[#line].turn
  return int(is_over and count * line.tenants / #line or count)
end
