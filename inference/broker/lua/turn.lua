-- queue, ticket, tenant, jobs, jobs per ms that should leave the queue where that is not measured  ->  ms until their turn
local now, queue = now_ms(), ARGV[2]
return give_turn(queue, ARGV[3], ARGV[4], tonumber(ARGV[5]), drain_of(queue, tonumber(ARGV[6]), now), now)
