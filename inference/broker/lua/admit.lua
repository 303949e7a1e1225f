-- queue, cap, milliseconds, keys of what was learned of outputs and speed (less the prefix), ids...
-- ->  {accepted, waiting without them, what was learned of outputs, of speed}
local queue, cap, now, FIRST = ARGV[2], tonumber(ARGV[3]), now_ms(), 7
local reserved = P .. 'r:' .. queue
local learned = call('MGET', P .. ARGV[5], P .. ARGV[6])
call('ZREMRANGEBYSCORE', reserved, '-inf', now)
local waiting = call('ZCARD', P .. 'a:' .. queue) + call('ZCARD', reserved)
local fits = waiting + #ARGV - FIRST + 1 <= cap
if fits then
  for i = FIRST, #ARGV do call('ZADD', reserved, now + tonumber(ARGV[4]), ARGV[i]) end
  call('PEXPIRE', reserved, ARGV[4])
end
return { fits and 1 or 0, waiting, learned[1] or '', learned[2] or '' }
