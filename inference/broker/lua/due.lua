-- lease ms, most  ->  {id, claim, queue, worker, whether it is a task}...
local LEAST_GAP_MS = 5000         -- between two looks; some worker looks every second
local found, lease_ms, most, now = {}, tonumber(ARGV[2]), tonumber(ARGV[3]), now_ms()

-- While nobody could look, nobody could renew: after a stall or a failover the leases have their time once more.
local function watched_since()
  local seen = call('HMGET', P .. 'looks', 'last', 'since')
  local last, since = tonumber(seen[1] or now), tonumber(seen[2] or 0)
  if now - last > math.max(LEAST_GAP_MS, lease_ms / 2) then since = now end
  call('HSET', P .. 'looks', 'last', int(now), 'since', int(since))
  return since
end

if now - watched_since() <= lease_ms then return found end
local uptime = tonumber(string.match(call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
-- Whole seconds: one more than the lease is surely past it.
if uptime * 1000 <= lease_ms then return found end

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
