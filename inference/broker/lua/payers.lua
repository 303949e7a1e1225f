-- What a job that has not ended is expected to cost, reserved in the budgets of those who pay. A payer is a tenant or
-- a key that has a budget; amounts are billionths of the currency.

local function drop_cost_of(payer, id)
  local key = P .. 'costs:' .. payer
  local cost = call('HGET', key, id)
  if not cost then return end
  call('HDEL', key, id)
  if call('HINCRBY', key, '', '-' .. cost) == 0 and call('HLEN', key) == 1 then call('DEL', key) end
end

-- Reserve it no longer. Who would have paid; empty for a job that nobody's budget counts.
local function drop_cost(id)
  local payers = {}
  for payer in string.gmatch(call('GET', P .. 'p:' .. id) or '', '[^\n]+') do
    drop_cost_of(payer, id)
    payers[#payers + 1] = payer
  end
  if #payers > 0 then call('DEL', P .. 'p:' .. id) end
  return payers
end

local function spent_key(payer, month) return P .. 'spent:' .. payer .. ':' .. month end

-- The job ended, and its real cost is in the database.
local function settle_cost(id, cost, month)
  for _, payer in ipairs(drop_cost(id)) do
    if call('EXISTS', spent_key(payer, month)) == 1 then call('HINCRBY', spent_key(payer, month), 'n', cost) end
  end
end
