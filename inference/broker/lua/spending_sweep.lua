-- payer, cursor, count  ->  {next cursor, how many were dropped}: costs reserved for jobs that are nowhere
local found, dropped = call('HSCAN', P .. 'costs:' .. ARGV[2], ARGV[3], 'COUNT', ARGV[4]), 0
for i = 1, #found[2], 2 do
  local id = found[2][i]
  if id ~= '' and call('EXISTS', P .. 'e:' .. id, P .. 'v:' .. id) == 0 then
    drop_cost(id)
    drop_cost_of(ARGV[2], id)    -- should it not say who pays
    dropped = dropped + 1
  end
end
return { found[1], dropped }
