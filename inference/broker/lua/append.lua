-- id, claim, kind, chunks...  ->  1 if it was ours and may still speak
local id, claim = ARGV[2], ARGV[3]
local entry = mine(id, claim)
if not entry or entry.cancelled then return 0 end
local names, streamed = audience(id, entry)
if not streamed and #names == 0 then return 1 end
for i = 5, math.max(5, #ARGV) do tell(id, names, streamed, ARGV[4], claim, ARGV[i] or '') end
settle(id, names, streamed, false)
call('HSET', P .. 'e:' .. id, 'o', '1')
return 1
