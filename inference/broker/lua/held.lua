-- ids...  ->  1 for each that is queued or leased
local are = {}
for i = 2, #ARGV do are[#are + 1] = call('EXISTS', P .. 'e:' .. ARGV[i]) end
return are
