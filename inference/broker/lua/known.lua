-- ids...  ->  1 for each that is queued, leased, or admitted and not published
local are = {}
for i = 2, #ARGV do are[#are + 1] = math.min(1, call('EXISTS', P .. 'e:' .. ARGV[i], P .. 'v:' .. ARGV[i])) end
return are
