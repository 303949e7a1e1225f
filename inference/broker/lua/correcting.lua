-- What a claim charged, put right by what was used.

-- Move a tenant's pass, never below the mark at which it came back.
local function correct_tenant(group, tenant, by)
  local pass, floor = pass_of(group, tenant), tonumber(call('HGET', P .. 'floor:' .. group.name, tenant) or 0)
  if math.max(pass + by, floor) == pass then return end
  set_pass(group, tenant, math.max(pass + by, floor))
  if call('HEXISTS', P .. 'busy:' .. group.name, tenant) == 1 then refresh(group, tenant) end
end

local function correct_tier(group, by)
  local key = P .. 'tiers:' .. group.model
  local pass, floor, seen = unpack_tier(call('HGET', key, group.tier))
  call('HSET', key, group.tier, pack_tier(math.max(pass + by, floor), floor, seen))
end

-- The weights that a leased entry's claim charged by; false if it charged nothing.
local function charged_by(id) return call('HGET', P .. 'e:' .. id, 'g') end

-- That claim charged `seconds` too little (too much, if below 0).
local function correct(entry, charged, seconds)
  local group = place(entry.queue)
  if not group or not charged or seconds == 0 then return end
  local tenant_weight, tier_weight = struct.unpack('<dd', charged)
  correct_tenant(group, entry.tenant, seconds / tenant_weight)
  if tier_weight > 0 then correct_tier(group, seconds / tier_weight) end
end
