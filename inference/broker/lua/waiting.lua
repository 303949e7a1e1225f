-- Entries that begin to wait, or wait no longer.

-- Put a waiting entry where claims find it.
local function line_up(id, entry)
  local group, length = place(entry.queue)
  if not group then return end
  if entry.alone then
    call('ZADD', P .. 'y:' .. entry.queue, entry.arrival, id)
    call('SADD', P .. 'alone:' .. group.model, entry.queue)
    return
  end
  local own_order, is_back = order_key(group, length, entry.tenant), false
  if call('HINCRBY', P .. 'busy:' .. group.name, entry.tenant, '1') == 1 then
    enter(group, length, entry.tenant)
    is_back = true
  elseif marks_of(group.model) and not first_of(group, length, entry.tenant)[1] then
    is_back = raise(group, entry.tenant, all_lengths(group))
  end
  tenant_in(group, entry.tenant).firsts[length] = nil
  call('ZADD', own_order, tonumber(entry.arrival) + SJF_MS * tonumber(entry.estimate), id)
  if is_back or call('ZRANK', own_order, id) == 0 then refresh(group, entry.tenant) end
end

local LOOKED_BACK_MS = '30000'    -- as far as drained.lua looks

-- Some are about to come back to a queue, with their first arrival, which says nothing of how long others wait: the oldest
-- of these counts. Who came back before is among them, and no older than was noted then.
local function note_return(queue)
  local oldest, noted = oldest_of(queue) or now_ms(), tonumber(call('GET', P .. 'back:' .. queue) or 0)
  call('SET', P .. 'back:' .. queue, int(math.max(oldest, noted)), 'PX', LOOKED_BACK_MS)
end

-- Make an entry wait, if `from_ms` is given claimable only from then on. Its hash is there, and it is in no queue.
local function enqueue(id, entry, from_ms)
  call('ZADD', P .. 'a:' .. entry.queue, entry.arrival, id)
  if not place(entry.queue) then return end
  count_entry(entry, 1)
  call('ZADD', P .. 'jobs:' .. entry.tenant, PUBLISHED, id)
  if not from_ms then return line_up(id, entry) end
  call('HSET', P .. 'e:' .. id, 'd', '1')
  call('ZADD', P .. 'd:' .. entry.queue, from_ms, id)
end

-- Take a waiting entry out of its queue; the caller refreshes its tenant.
local function dequeue(id, entry)
  if call('ZREM', P .. 'a:' .. entry.queue, id) == 0 then return end
  call('SREM', P .. 'hold:' .. entry.queue, id)
  local group, length = place(entry.queue)
  if not group then return end
  count_entry(entry, -1)
  if entry.delayed then
    call('ZREM', P .. 'd:' .. entry.queue, id)
  elseif entry.alone then
    leave_alone(id, entry.queue)
  else
    leave_order(id, group, length, entry.tenant)
  end
end

local function forget_waiting(id, entry)
  dequeue(id, entry)
  call('DEL', P .. 'e:' .. id)
  drop_cost(id)
  local group = place(entry.queue)
  if not group then return end
  call('ZREM', P .. 'jobs:' .. entry.tenant, id)
  refresh(group, entry.tenant)
end

local function set_weight(tenant, weight)
  if tonumber(weight) == weight_of(tenant) then return end
  if tonumber(weight) == 1 then call('HDEL', P .. 'weights', tenant) else call('HSET', P .. 'weights', tenant, weight) end
  weights_read[tenant] = tonumber(weight)
  local done = {}
  for _, queue in ipairs(call('HKEYS', P .. 'queues')) do
    local group = place(queue)
    if not done[group] and call('HEXISTS', P .. 'busy:' .. group.name, tenant) == 1 then refresh(group, tenant) end
    done[group] = true
  end
end
