-- Tenants that come back: at which pass; as inference/lines.py.

local RECENT_MS = 10000           -- a set that workers claimed with so lately is one that tenants compete in

-- Those that some worker serves, and those that were held back from all.
local function all_lengths(group)
  local seen, all, from = {}, {}, group.tier .. ':'
  for field in pairs(used_sets(group.model)) do seen[field] = true end
  for field in pairs(marks_of(group.model) or {}) do seen[field] = true end
  for field in pairs(seen) do
    for _, length in ipairs(string.sub(field, 1, #from) == from and split(string.sub(field, #from + 1)) or {}) do
      if not includes(all, length) then all[#all + 1] = length end
    end
  end
  return all
end

local function smallest_pass(group, set)
  local first = call('ZRANGE', set.floor, '0', '0', 'WITHSCORES')
  for _ = 1, FIXES do
    if not first[1] or not raise(group, first[1], set.lengths) then break end
    first = call('ZRANGE', set.floor, '0', '0', 'WITHSCORES')
  end
  return tonumber(first[2])
end

-- The sets that a length competes in, in order of their names: those that workers claim with now, else all known.
local function competing_sets(group, length, now)
  local recent, known = {}, {}
  for name, set in pairs(sets_of(group)) do
    if includes(set.lengths, length) then
      known[#known + 1] = name
      if now - used_sets(group.model)[group.tier .. ':' .. name] <= RECENT_MS then recent[#recent + 1] = name end
    end
  end
  local competing = #recent > 0 and recent or known
  table.sort(competing, before)
  return competing
end

-- A tenant that was idle comes back: at the smallest pass of those it will compete with, or its own if larger.
local function enter(group, length, tenant)
  local floor
  for _, name in ipairs(competing_sets(group, length, now_ms())) do
    local least = smallest_pass(group, sets_of(group)[name])
    if least and (not floor or least < floor) then floor = least end
  end
  floor = floor or pass_of(group, '')
  if floor > pass_of(group, tenant) then set_pass(group, tenant, floor) end
  call('HSET', P .. 'floor:' .. group.name, tenant, floor)
end
