-- lease ms, most  ->  {id, claim, queue, worker, whether it is a task}...
local found, most = {}, tonumber(ARGV[3])
local uptime = tonumber(string.match(call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
-- Whole seconds: one more than the lease is surely past it.
if uptime * 1000 <= tonumber(ARGV[2]) then return found end
local now = now_ms()

local function collect(queues, is_task)
  for _, queue in ipairs(queues) do
    if #found >= most then return end
    for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'l:' .. queue, '-inf', now, 'LIMIT', 0, most - #found)) do
      local held = call('HMGET', P .. 'e:' .. id, 'c', 'w')
      found[#found + 1] = { id, held[1], queue, held[2], is_task }
    end
  end
end

collect(call('HKEYS', P .. 'queues'), 0)
collect(call('SMEMBERS', P .. 'plain'), 1)
return found
