-- month, {payer, its number, spent by the database}...  ->  how many were set: of two reads at once the later counts
local set = 0
for i = 3, #ARGV, 3 do
  local key = spent_key(ARGV[i], ARGV[2])
  if call('HGET', key, 'g') == ARGV[i + 1] then
    call('HSET', key, 's', ARGV[i + 2], 'o', '0')
    set = set + 1
  end
end
return set
