-- Entries, and moving them between waiting, leased and gone.

-- An entry's fields by name; nil if there is no such entry.
local function read(id)
  local v = call('HMGET', P .. 'e:' .. id, 'q', 't', 'p', 'x', 'e', 'a', 'm', 's', 'c', 'z', 'd', 'u')
  if not v[1] then return nil end
  return { queue = v[1], tenant = v[2] or '', prompt = v[3] or '0', expected = v[4] or '0', estimate = v[5] or '0',
    arrival = v[6], mailbox = v[7] or '', streamed = v[8] or '0', claim = v[9], cancelled = v[10], delayed = v[11],
    unfit = v[12] }
end

-- The entry if `claim` holds it, else nil: the fence of every verb with a token.
local function mine(id, claim)
  local entry = read(id)
  return entry and entry.claim == claim and entry or nil
end

local function tokens_of(entry) return tonumber(entry.prompt) + tonumber(entry.expected) end

-- Put a waiting entry where claims find it.
local function line_up(id, entry)
  local q = place(entry.queue)
  if not q then return end
  local own_order, is_back = order_key(q.group, q.length, entry.tenant), false
  if call('HINCRBY', P .. 'busy:' .. q.group, entry.tenant, 1) == 1 then
    enter(q, entry.tenant)
    is_back = true
  elseif marks_of(q.model) and not first_of(q.group, q.length, entry.tenant)[1] then
    is_back = raise(q, entry.tenant, all_lengths(q))
  end
  firsts_read[own_order] = nil
  call('ZADD', own_order, tonumber(entry.arrival) + SJF_MS * tonumber(entry.estimate), id)
  if is_back or call('ZRANK', own_order, id) == 0 then refresh(q, entry.tenant) end
end

-- Make an entry wait, if `from_ms` is given claimable only from then on. Its hash is there, and it is in no queue.
local function enqueue(id, entry, from_ms)
  call('ZADD', P .. 'a:' .. entry.queue, entry.arrival, id)
  if not place(entry.queue) then return end
  call('HINCRBY', P .. 'tokens', entry.queue, int(tokens_of(entry)))
  if not from_ms then return line_up(id, entry) end
  call('HSET', P .. 'e:' .. id, 'd', '1')
  call('ZADD', P .. 'd:' .. entry.queue, from_ms, id)
end

local function leave_order(id, group, length, tenant)
  local own_order = order_key(group, length, tenant)
  firsts_read[own_order] = nil
  call('ZREM', own_order, id)
  if call('HINCRBY', P .. 'busy:' .. group, tenant, -1) == 0 then call('HDEL', P .. 'busy:' .. group, tenant) end
end

-- Take a waiting entry out of its queue; the caller refreshes its tenant.
local function dequeue(id, entry)
  if call('ZREM', P .. 'a:' .. entry.queue, id) == 0 then return end
  local q = place(entry.queue)
  if not q then return end
  if call('HINCRBY', P .. 'tokens', entry.queue, int(-tokens_of(entry))) == 0 then
    call('HDEL', P .. 'tokens', entry.queue)
  end
  if entry.delayed then
    call('ZREM', P .. 'd:' .. entry.queue, id)
    return
  end
  leave_order(id, q.group, q.length, entry.tenant)
end

-- Further fields and values of the entry may follow.
local function lease(id, queue, claim, worker, until_ms, ...)
  call('HSET', P .. 'e:' .. id, 'c', claim, 'w', worker, ...)
  call('ZADD', P .. 'l:' .. queue, until_ms, id)
end

-- Forget an entry, wherever it is.
local function forget(id, entry)
  if entry.claim then
    call('ZREM', P .. 'l:' .. entry.queue, id)
    call('DEL', P .. 'e:' .. id)
    return
  end
  dequeue(id, entry)
  call('DEL', P .. 'e:' .. id)
  local q = place(entry.queue)
  if q then refresh(q, entry.tenant) end
end

local function set_weight(tenant, weight)
  if tonumber(weight) == weight_of(tenant) then return end
  if tonumber(weight) == 1 then call('HDEL', P .. 'weights', tenant) else call('HSET', P .. 'weights', tenant, weight) end
  weights_read[tenant] = tonumber(weight)
  local done = {}
  for _, queue in ipairs(call('HKEYS', P .. 'queues')) do
    local q = place(queue)
    if not done[q.group] and call('HEXISTS', P .. 'busy:' .. q.group, tenant) == 1 then refresh(q, tenant) end
    done[q.group] = true
  end
end

