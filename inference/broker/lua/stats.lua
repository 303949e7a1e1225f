-- queues...  ->  {jobs, tokens, oldest arrival or '', leases, bytes, ms of estimates, jobs on hold, spilled jobs} of each
local rows = {}
for i = 2, #ARGV do
  local queue = ARGV[i]
  local oldest = call('ZRANGE', P .. 'a:' .. queue, 0, 0, 'WITHSCORES')[2]
  rows[#rows + 1] = { call('ZCARD', P .. 'a:' .. queue), tonumber(call('HGET', P .. 'tokens', queue) or 0),
    oldest and int(math.floor(tonumber(oldest))) or '', call('ZCARD', P .. 'l:' .. queue),
    tonumber(call('HGET', P .. 'bytes', queue) or 0), tonumber(call('HGET', P .. 'work', queue) or 0),
    call('SCARD', P .. 'hold:' .. queue), call('ZCARD', P .. 'spilled:' .. queue) }
end
return rows
