-- queue, id, body
local queue, id, time = ARGV[2], ARGV[3], call('TIME')
if call('EXISTS', P .. 'e:' .. id) == 1 then return 0 end
-- To the microsecond: first in, first out, whatever the ids are.
local arrival = string.format('%.3f', time[1] * 1000 + time[2] / 1000)
call('SADD', P .. 'plain', queue)
call('HSET', P .. 'e:' .. id, 'q', queue, 'a', arrival, 'b', ARGV[4])
enqueue(id, { queue = queue, arrival = arrival })
ring(queue, 1)
return 1
