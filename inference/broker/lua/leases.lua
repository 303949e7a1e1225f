-- Leases that somebody holds.

-- The entry if `claim` holds it, else nil: the fence of every verb with a token.
local function mine(id, claim)
  local entry = read(id)
  return entry and entry.claim == claim and entry or nil
end

-- Wakes those that a cap held back: one of them may have the place.
local function end_lease(id, entry)
  call('ZREM', P .. 'l:' .. entry.queue, id)
  if not entry.capped then return end
  local capped = P .. 'capped:' .. place(entry.queue).model
  for _, queue in ipairs(call('SMEMBERS', capped)) do ring(queue, 1) end
  call('DEL', capped)
end
