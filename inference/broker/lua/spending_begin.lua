-- month, ms to keep it, payers...  ->  a number for each: before its spending is read from the database
local numbers = {}
for i = 4, #ARGV do
  local key = spent_key(ARGV[i], ARGV[2])
  call('HINCRBY', key, 'o', call('HGET', key, 'n') or '0')
  call('HSET', key, 'n', '0')
  call('PEXPIRE', key, ARGV[3])
  numbers[#numbers + 1] = call('HINCRBY', key, 'g', '1')
end
return numbers
