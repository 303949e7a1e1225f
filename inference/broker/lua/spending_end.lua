-- month, {payer, its number, spent by the database}...  ->  how many were set: of two reads at once the later counts
local set = 0

-- Where nothing is known yet, an earlier read is better than none: many may begin at once, so that none of them is the
-- last for long. What was acknowledged before the later one began may not be in its answer, and goes on counting.
local function put(key, number, spent)
  local is_last = call('HGET', key, 'g') == number
  if not is_last and call('HEXISTS', key, 's') == 1 then return 0 end
  call('HSET', key, 's', spent)
  if is_last then call('HSET', key, 'o', '0') end
  return 1
end

for i = 3, #ARGV, 3 do set = set + put(spent_key(ARGV[i], ARGV[2]), ARGV[i + 1], ARGV[i + 2]) end
return set
