-- queue, ticket, jobs, jobs per ms that should leave the queue where that is not measured  ->  ms until their turn
local now, queue = now_ms(), ARGV[2]
return give_turn(queue, ARGV[3], tonumber(ARGV[4]), drain_of(queue, tonumber(ARGV[5]), now), now)
