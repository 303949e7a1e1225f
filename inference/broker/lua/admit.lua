-- queue, cap, milliseconds, ids...  ->  {accepted, waiting without them}
local queue, cap, now = ARGV[2], tonumber(ARGV[3]), now_ms()
local reserved = P .. 'r:' .. queue
call('ZREMRANGEBYSCORE', reserved, '-inf', now)
local waiting = call('ZCARD', P .. 'a:' .. queue) + call('ZCARD', reserved)
if waiting + #ARGV - 4 > cap then return { 0, waiting } end
for i = 5, #ARGV do call('ZADD', reserved, now + tonumber(ARGV[4]), ARGV[i]) end
call('PEXPIRE', reserved, ARGV[4])
return { 1, waiting }
