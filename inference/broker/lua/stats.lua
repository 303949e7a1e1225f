-- queues...  ->  {jobs, tokens, oldest arrival or '', leases, bytes, ms of estimates, jobs on hold, spilled
-- jobs, claims a second of the last half minute} of each
local rows, now = {}, now_ms()
local span = HALF_MINUTE.count * HALF_MINUTE.width + now % HALF_MINUTE.width
for i = 2, #ARGV do
  local queue = ARGV[i]
  local oldest = call('ZRANGE', P .. 'a:' .. queue, 0, 0, 'WITHSCORES')[2]
  rows[#rows + 1] = { call('ZCARD', P .. 'a:' .. queue), tonumber(call('HGET', P .. 'tokens', queue) or 0),
    oldest and int(math.floor(tonumber(oldest))) or '', call('ZCARD', P .. 'l:' .. queue),
    tonumber(call('HGET', P .. 'bytes', queue) or 0), tonumber(call('HGET', P .. 'work', queue) or 0),
    call('SCARD', P .. 'hold:' .. queue), call('ZCARD', P .. 'spilled:' .. queue),
    tostring(read_window('drained:' .. queue, HALF_MINUTE, now).requests * 1000 / span) }
end
return rows
