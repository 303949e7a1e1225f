-- What budgets count, beside what is reserved. On payers.lua.
--
-- What ended is in the database before its claim is acknowledged, and the sum is read from there now and then. What
-- was acknowledged since a read began may be in its answer or not: it counts until the next read is done.

-- Nil if it is not known: the database was not read since Redis was wiped or the month began.
local function spent_of(payer, month)
  local known = call('HMGET', spent_key(payer, month), 's', 'o', 'n')
  return known[1] and tonumber(known[1]) + tonumber(known[2] or 0) + tonumber(known[3] or 0)
end

-- What the payer's unfinished jobs are expected to cost.
local function reserved_cost_of(payer) return tonumber(call('HGET', P .. 'costs:' .. payer, '') or 0) end

-- Reserve a job's expected cost until it ends, or lapses.
local function reserve_cost(id, cost, payers)
  if cost == 0 or #payers == 0 or not call('SET', P .. 'p:' .. id, table.concat(payers, '\n'), 'NX') then return end
  for _, payer in ipairs(payers) do
    call('HSET', P .. 'costs:' .. payer, id, int(cost))
    call('HINCRBY', P .. 'costs:' .. payer, '', int(cost))
  end
end
