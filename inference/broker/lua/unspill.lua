-- ids...  ->  forgets the spilled jobs among them; what is queued or leased keeps its cost
for i = 2, #ARGV do
  local of = read_reserved(ARGV[i])
  if of and of.spilled == 1 then
    end_reservation(ARGV[i])
    if call('EXISTS', P .. 'e:' .. ARGV[i]) == 0 then drop_cost(ARGV[i]) end
  end
end
