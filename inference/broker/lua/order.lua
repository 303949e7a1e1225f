-- Whose turn it is within a tier: passes, and the tenants with work in each set of lengths; as inference/lines.py.

local SJF_MS = 1000               -- sjf_weight 1: a second of estimate orders like a second of arrival
local FIXES = 8                   -- most tenants that one look raises

local weights_read, has_weights = {}, nil

local function weight_of(tenant)
  if has_weights == nil then has_weights = call('EXISTS', P .. 'weights') == 1 end
  weights_read[tenant] = weights_read[tenant] or has_weights and tonumber(call('HGET', P .. 'weights', tenant)) or 1
  return weights_read[tenant]
end

-- What this call has read of a tenant in a group: its pass, and the first job of each length.
local function tenant_in(group, tenant)
  local read = group.tenants[tenant]
  if not read then
    read = { pass = nil, firsts = {} }
    group.tenants[tenant] = read
  end
  return read
end

local function pass_of(group, tenant)
  local read = tenant_in(group, tenant)
  read.pass = read.pass or tonumber(call('HGET', group.passes, tenant) or 0)
  return read.pass
end

-- A claim defers this and the next (deferred.lua).
local function write_pass(group, tenant, pass) call('HSET', group.passes, tenant, pass) end

local function write_floor(set, tenant, pass)
  if pass then call('ZADD', set.floor, pass, tenant) else call('ZREM', set.floor, tenant) end
end

local function set_pass(group, tenant, pass)
  write_pass(group, tenant, pass)
  tenant_in(group, tenant).pass = pass
end

local splits = {}

-- The names in a list with commas. Not to be changed.
local function split(names)
  if not splits[names] then
    splits[names] = {}
    for name in string.gmatch(names, '[^,]+') do table.insert(splits[names], name) end
  end
  return splits[names]
end

local sets_used = {}    -- {TIER:SET -> last claim ms} by model

local function used_sets(model)
  if not sets_used[model] then
    local used, fields = {}, call('HGETALL', P .. 'sets:' .. model)
    for i = 1, #fields, 2 do used[fields[i]] = tonumber(fields[i + 1]) end
    sets_used[model] = used
  end
  return sets_used[model]
end

local function parse_sets(group)
  local sets, from = {}, group.tier .. ':'
  for field in pairs(used_sets(group.model)) do
    if string.sub(field, 1, #from) == from then
      local set, name = string.sub(field, #from + 1), group.model .. ':' .. field
      sets[set] = { lengths = split(set), index = P .. 'i:' .. name, floor = P .. 'f:' .. name }
    end
  end
  return sets
end

-- {set -> its lengths, and the keys of its indexes} of a tier.
local function sets_of(group)
  group.sets = group.sets or parse_sets(group)
  return group.sets
end

local function order_key(group, length, tenant) return P .. 'o:' .. group.name .. ':' .. length .. ':' .. tenant end

local function read_first_of(group, length, tenant)
  local first = call('ZRANGE', order_key(group, length, tenant), '0', '0', 'WITHSCORES')
  first[2] = tonumber(first[2])
  tenant_in(group, tenant).firsts[length] = first
  return first
end

-- {id, order}, or {}; forgotten by who changes that order.
local function first_of(group, length, tenant)
  return tenant_in(group, tenant).firsts[length] or read_first_of(group, length, tenant)
end

-- The tenant's job with the smallest order among `lengths` but those `tried`, and its length; nil if it has none there.
local function head(group, tenant, lengths, tried)
  local best, order, at
  local firsts = tenant_in(group, tenant).firsts
  for _, length in ipairs(lengths) do
    if not (tried and tried[length]) then
      local first = firsts[length] or read_first_of(group, length, tenant)
      local id, score = first[1], first[2]
      if id and (not best or score < order or (score == order and before(id, best))) then
        best, order, at = id, score, length
      end
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
local function rank(group, set, tenant)
  local id, pass = head(group, tenant, set.lengths), pass_of(group, tenant)
  if id then
    call('ZADD', set.index, pass + estimate_of(id) / weight_of(tenant), tenant)
    write_floor(set, tenant, pass)
  else
    call('ZREM', set.index, tenant)
    write_floor(set, tenant, nil)
  end
end

-- After any change of a tenant's first jobs, pass or weight.
local function refresh(group, tenant)
  for _, set in pairs(sets_of(group)) do rank(group, set, tenant) end
end

local function leave_order(id, group, length, tenant)
  tenant_in(group, tenant).firsts[length] = nil
  call('ZREM', order_key(group, length, tenant), id)
  if call('HINCRBY', P .. 'busy:' .. group.name, tenant, '-1') == 0 then
    call('HDEL', P .. 'busy:' .. group.name, tenant)
  end
end

-- One that must run alone waits in no order.
local function leave_alone(id, queue)
  call('ZREM', P .. 'y:' .. queue, id)
  if call('EXISTS', P .. 'y:' .. queue) == 0 then call('SREM', P .. 'alone:' .. place(queue).model, queue) end
end

-- Who holds the model's job that must run alone; nil if nobody does. One is out at a time.
local function who_runs_alone(model)
  local id = call('HGET', P .. 'runs_alone', model)
  local held = id and call('HMGET', P .. 'e:' .. id, 'c', 'y', 'w')
  return held and held[1] and held[2] and held[3] or nil
end

local NEVER_MS = -2 ^ 40

-- What is kept of a tier: pass, floor, seen.
local function unpack_tier(kept)
  if not kept then return 0, 0, NEVER_MS end
  return struct.unpack('<ddd', kept)
end

local function pack_tier(pass, floor, seen) return struct.pack('<ddd', pass, floor, seen) end

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
local function owed(group, tenant, lengths, marks)
  local least
  for _, length in ipairs(lengths) do
    if first_of(group, length, tenant)[1] then
      local mark = marks[group.tier .. ':' .. length]
      if not mark then return nil end
      least = math.min(least or mark, mark)
    end
  end
  return least
end

-- Raise a tenant all of whose work in `lengths` was held back: it has saved nothing up.
local function raise(group, tenant, lengths)
  local marks = marks_of(group.model)
  local least = marks and owed(group, tenant, lengths, marks)
  if not least or least <= pass_of(group, tenant) then return false end
  set_pass(group, tenant, least)
  call('HSET', P .. 'floor:' .. group.name, tenant, least)
  refresh(group, tenant)
  return true
end
