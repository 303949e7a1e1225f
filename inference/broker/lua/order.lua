-- Whose turn it is within a tier: passes, and the tenants with work in each set of lengths; as inference/lines.py.

local SJF_MS = 1000               -- sjf_weight 1: a second of estimate orders like a second of arrival
local RECENT_MS = 10000           -- a set that workers claimed with so lately is one that tenants compete in
local FIXES = 8                   -- most tenants that one look raises

local weights_read = {}

local function weight_of(tenant)
  weights_read[tenant] = weights_read[tenant] or tonumber(call('HGET', P .. 'weights', tenant) or 1)
  return weights_read[tenant]
end

local passes_read = {}

local function pass_of(group, tenant)
  local field = group .. ':' .. tenant
  passes_read[field] = passes_read[field] or tonumber(call('HGET', P .. 'pass:' .. group, tenant) or 0)
  return passes_read[field]
end

local function set_pass(group, tenant, pass, ...)
  call('HSET', P .. 'pass:' .. group, tenant, pass, ...)
  passes_read[group .. ':' .. tenant] = pass
end

local sets_used, sets_read = {}, {}    -- {TIER:SET -> last claim ms} by model; {set -> its lengths} by group

local function split(set)
  local lengths = {}
  for length in string.gmatch(set, '[^,]+') do lengths[#lengths + 1] = length end
  return lengths
end

local function used_sets(model)
  if not sets_used[model] then
    local used, fields = {}, call('HGETALL', P .. 'sets:' .. model)
    for i = 1, #fields, 2 do used[fields[i]] = tonumber(fields[i + 1]) end
    sets_used[model] = used
  end
  return sets_used[model]
end

local function parse_sets(q)
  local sets, from = {}, q.tier .. ':'
  for field in pairs(used_sets(q.model)) do
    if string.sub(field, 1, #from) == from then
      local set = string.sub(field, #from + 1)
      sets[set] = split(set)
    end
  end
  return sets
end

-- {set -> its lengths} of a tier.
local function sets_of(q)
  sets_read[q.group] = sets_read[q.group] or parse_sets(q)
  return sets_read[q.group]
end

local function order_key(group, length, tenant) return P .. 'o:' .. group .. ':' .. length .. ':' .. tenant end

local firsts_read = {}    -- {id, order} by order_key; dropped by who changes that set

local function first_of(group, length, tenant)
  local key = order_key(group, length, tenant)
  firsts_read[key] = firsts_read[key] or call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return firsts_read[key]
end

-- The tenant's job with the smallest order among `lengths` but those `tried`, and its length; nil if it has none there.
local function head(group, tenant, lengths, tried)
  local best, order, at
  for _, length in ipairs(lengths) do
    local first = not (tried and tried[length]) and first_of(group, length, tenant) or {}
    local score = tonumber(first[2])
    if score and (not best or score < order or (score == order and before(first[1], best))) then
      best, order, at = first[1], score, length
    end
  end
  return best, at
end

local estimates_read = {}    -- by id: heads are looked at by every set

local function estimate_of(id)
  estimates_read[id] = estimates_read[id] or tonumber(call('HGET', P .. 'e:' .. id, 'e') or 0)
  return estimates_read[id]
end

-- Put a tenant at its place in the indexes of one set of lengths.
local function rank(group, set, lengths, tenant)
  local id, pass = head(group, tenant, lengths), pass_of(group, tenant)
  local index, floor = P .. 'i:' .. group .. ':' .. set, P .. 'f:' .. group .. ':' .. set
  if id then
    call('ZADD', index, pass + estimate_of(id) / weight_of(tenant), tenant)
    call('ZADD', floor, pass, tenant)
  else
    call('ZREM', index, tenant)
    call('ZREM', floor, tenant)
  end
end

-- After any change of a tenant's first jobs, pass or weight.
local function refresh(q, tenant)
  for set, lengths in pairs(sets_of(q)) do rank(q.group, set, lengths, tenant) end
end

local marks_read = {}

-- {TIER:LENGTH -> the largest pass at which a tenant was chosen while a guard held that length back}; false if there are none.
local function marks_of(model)
  if marks_read[model] == nil then
    local marks, fields = {}, call('HGETALL', P .. 'marks:' .. model)
    for i = 1, #fields, 2 do marks[fields[i]] = tonumber(fields[i + 1]) end
    marks_read[model] = #fields > 0 and marks
  end
  return marks_read[model]
end

-- What a tenant owes if all of its work in `lengths` was held back; nil if it owes nothing.
local function owed(q, tenant, lengths, marks)
  local least
  for _, length in ipairs(lengths) do
    if first_of(q.group, length, tenant)[1] then
      local mark = marks[q.tier .. ':' .. length]
      if not mark then return nil end
      least = math.min(least or mark, mark)
    end
  end
  return least
end

-- Raise a tenant all of whose work in `lengths` was held back: it has saved nothing up.
local function raise(q, tenant, lengths)
  local marks = marks_of(q.model)
  local least = marks and owed(q, tenant, lengths, marks)
  if not least or least <= pass_of(q.group, tenant) then return false end
  set_pass(q.group, tenant, least)
  call('HSET', P .. 'floor:' .. q.group, tenant, least)
  refresh(q, tenant)
  return true
end

-- Those that some worker serves, and those that were held back from all.
local function all_lengths(q)
  local seen, all, from = {}, {}, q.tier .. ':'
  for field in pairs(used_sets(q.model)) do seen[field] = true end
  for field in pairs(marks_of(q.model) or {}) do seen[field] = true end
  for field in pairs(seen) do
    for _, length in ipairs(string.sub(field, 1, #from) == from and split(string.sub(field, #from + 1)) or {}) do
      if not includes(all, length) then all[#all + 1] = length end
    end
  end
  return all
end

local function smallest_pass(q, set, lengths)
  local key = P .. 'f:' .. q.group .. ':' .. set
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  for _ = 1, FIXES do
    if not first[1] or not raise(q, first[1], lengths) then break end
    first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  end
  return tonumber(first[2])
end

-- The sets that a length competes in, in order of their names: those that workers claim with now, else all known.
local function competing_sets(q, now)
  local recent, known = {}, {}
  for set, lengths in pairs(sets_of(q)) do
    if includes(lengths, q.length) then
      known[#known + 1] = set
      if now - used_sets(q.model)[q.tier .. ':' .. set] <= RECENT_MS then recent[#recent + 1] = set end
    end
  end
  local competing = #recent > 0 and recent or known
  table.sort(competing, before)
  return competing
end

-- A tenant that was idle comes back: at the smallest pass of those it will compete with, or its own if larger.
local function enter(q, tenant)
  local floor
  for _, set in ipairs(competing_sets(q, now_ms())) do
    local least = smallest_pass(q, set, sets_of(q)[set])
    if least and (not floor or least < floor) then floor = least end
  end
  floor = floor or pass_of(q.group, '')
  if floor > pass_of(q.group, tenant) then set_pass(q.group, tenant, floor) end
  call('HSET', P .. 'floor:' .. q.group, tenant, floor)
end

-- Move a tenant's pass, never below the mark at which it came back.
local function correct_tenant(q, tenant, by)
  local pass, floor = pass_of(q.group, tenant), tonumber(call('HGET', P .. 'floor:' .. q.group, tenant) or 0)
  if math.max(pass + by, floor) == pass then return end
  set_pass(q.group, tenant, math.max(pass + by, floor))
  if call('HEXISTS', P .. 'busy:' .. q.group, tenant) == 1 then refresh(q, tenant) end
end

local function correct_tier(q, by)
  local found = call('HMGET', P .. 'tiers:' .. q.model, q.tier, q.tier .. '^')
  call('HSET', P .. 'tiers:' .. q.model, q.tier, math.max(tonumber(found[1] or 0) + by, tonumber(found[2] or 0)))
end

-- The weights that a leased entry's claim charged by; nil if it charged nothing.
local function charged_by(id) return call('HGET', P .. 'e:' .. id, 'g') end

-- That claim charged `seconds` too little (too much, if below 0).
local function correct(entry, charged, seconds)
  local q = place(entry.queue)
  if not q or not charged or seconds == 0 then return end
  local tenant_weight, tier_weight = string.match(charged, '^(%S+) ?(%S*)$')
  correct_tenant(q, entry.tenant, seconds / tonumber(tenant_weight))
  if tier_weight ~= '' then correct_tier(q, seconds / tonumber(tier_weight)) end
end
