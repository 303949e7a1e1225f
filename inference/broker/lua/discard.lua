-- ids...  ->  1 for each that was held
local were = {}
for i = 2, #ARGV do
  if end_reservation(ARGV[i]) then drop_cost(ARGV[i]) end
  local entry = read(ARGV[i])
  if entry and entry.claim then
    forget_leased(ARGV[i], entry)
  elseif entry then
    forget_waiting(ARGV[i], entry)
    settle_tokens(entry, '0')
  end
  were[#were + 1] = entry and 1 or 0
end
return were
