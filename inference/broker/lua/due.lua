-- lease ms, most, longest reservation ms  ->  {id, claim, queue, worker, returns that were failures, body of a task}...
-- Lets those wait in the order that were kept from it after a failure, and whose time has come.
local LEAST_GAP_MS = 5000         -- between two looks; some worker looks every second
local found, lease_ms, most, hold_ms, now = {}, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), now_ms()

local function end_by(key, end_ms)
  for _, id in ipairs(call('ZRANGEBYSCORE', key, '(' .. int(end_ms), '+inf')) do call('ZADD', key, int(end_ms), id) end
end

-- The server's clock was set back, so what was to end by it would end too late: leases a lease from now, reservations
-- likewise, the rest of the waits after as long as they had to go.
local function set_back(last)
  for _, queue in ipairs(call('HKEYS', P .. 'queues')) do
    local late = call('ZRANGEBYSCORE', P .. 'd:' .. queue, int(last), '+inf', 'WITHSCORES')
    for i = 1, #late, 2 do call('ZADD', P .. 'd:' .. queue, tonumber(late[i + 1]) - (last - now), late[i]) end
  end
  for _, source in ipairs({ call('HKEYS', P .. 'queues'), call('SMEMBERS', P .. 'plain') }) do
    for _, queue in ipairs(source) do end_by(P .. 'l:' .. queue, now + lease_ms) end
  end
  for _, queue in ipairs(call('SMEMBERS', P .. 'admitting')) do end_by(P .. 'r:' .. queue, now + hold_ms) end
end

-- While nobody could look, nobody could renew: after a stall or a failover the leases have their time once more.
local function watched_since()
  local seen = call('HMGET', P .. 'looks', 'last', 'since')
  local last, since = tonumber(seen[1] or now), tonumber(seen[2] or 0)
  if last > now then set_back(last) end
  if last > now or now - last > math.max(LEAST_GAP_MS, lease_ms / 2) then since = now end
  call('HSET', P .. 'looks', 'last', int(now), 'since', int(since))
  return since
end

-- At their first arrival. Nobody's lease is in question: this needs no watch.
local function line_up_delayed(queue)
  local ids = call('ZRANGEBYSCORE', P .. 'd:' .. queue, '-inf', now, 'LIMIT', 0, most)
  if #ids == 0 then return end
  note_return(queue)
  for _, id in ipairs(ids) do
    call('ZREM', P .. 'd:' .. queue, id)
    call('HDEL', P .. 'e:' .. id, 'd')
    local entry = read(id)
    if entry then line_up(id, entry) else drop_lost(id, queue) end
  end
  ring(queue, #ids)
end

for _, queue in ipairs(call('HKEYS', P .. 'queues')) do line_up_delayed(queue) end
for _, queue in ipairs(call('SMEMBERS', P .. 'admitting')) do lapse(queue, now) end
if now - watched_since() <= lease_ms then return found end
local uptime = tonumber(string.match(call('INFO', 'server'), 'uptime_in_seconds:(-?%d+)'))
-- Whole seconds: one more than the lease is surely past it. Below 0 the clock was set back since the start.
if uptime >= 0 and uptime * 1000 <= lease_ms then return found end

local function collect(queues)
  for _, queue in ipairs(queues) do
    if #found >= most then return end
    for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'l:' .. queue, '-inf', now, 'LIMIT', 0, most - #found)) do
      local held = call('HMGET', P .. 'e:' .. id, 'c', 'w', 'f', 'b')
      if held[1] then
        found[#found + 1] = { id, held[1], queue, held[2], held[3] or 0, held[4] or '' }
      else
        call('ZREM', P .. 'l:' .. queue, id)    -- lost: the reconciler finds its row without a lease
      end
    end
  end
end

collect(call('HKEYS', P .. 'queues'))
collect(call('SMEMBERS', P .. 'plain'))
return found
