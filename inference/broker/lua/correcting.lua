-- What a claim charged, put right by what was used.

-- Move a tenant's pass, never below the mark at which it came back.
local function correct_tenant(group, tenant, by)
  local pass, floor = pass_of(group, tenant), tonumber(call('HGET', P .. 'floor:' .. group.name, tenant) or 0)
  if math.max(pass + by, floor) == pass then return end
  set_pass(group, tenant, math.max(pass + by, floor))
  if call('HEXISTS', P .. 'busy:' .. group.name, tenant) == 1 then refresh(group, tenant) end
end

local function correct_tier(group, by)
  local tier = group.tier
  local found = call('HMGET', P .. 'tiers:' .. group.model, tier, tier .. '^')
  call('HSET', P .. 'tiers:' .. group.model, tier, math.max(tonumber(found[1] or 0) + by, tonumber(found[2] or 0)))
end

-- The weights that a leased entry's claim charged by; nil if it charged nothing.
local function charged_by(id) return call('HGET', P .. 'e:' .. id, 'g') end

-- That claim charged `seconds` too little (too much, if below 0).
local function correct(entry, charged, seconds)
  local group = place(entry.queue)
  if not group or not charged or seconds == 0 then return end
  local tenant_weight, tier_weight = string.match(charged, '^(%S+) ?(%S*)$')
  correct_tenant(group, entry.tenant, seconds / tonumber(tenant_weight))
  if tier_weight ~= '' then correct_tier(group, seconds / tonumber(tier_weight)) end
end
