-- Leases that end.

-- Wakes those that a cap held back: one of them may have the place.
local function end_lease(id, entry)
  call('ZREM', P .. 'l:' .. entry.queue, id)
  if entry.tenant ~= '' then call('ZREM', P .. 'running', run_of(entry.tenant, id)) end
  if not entry.capped then return end
  local capped = P .. 'capped:' .. place(entry.queue).model
  for _, queue in ipairs(call('SMEMBERS', capped)) do ring(queue, 1) end
  call('DEL', capped)
end

local function forget_leased(id, entry)
  end_lease(id, entry)
  call('DEL', P .. 'e:' .. id)
  drop_cost(id)
  if entry.tenant ~= '' then call('ZREM', P .. 'jobs:' .. entry.tenant, id) end
end
