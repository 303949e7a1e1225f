-- month, payers...  ->  {spent or '', reserved} of each
local rows = {}
for i = 3, #ARGV do
  local spent = spent_of(ARGV[i], ARGV[2])
  rows[#rows + 1] = { spent and int(spent) or '', int(reserved_cost_of(ARGV[i])) }
end
return rows
