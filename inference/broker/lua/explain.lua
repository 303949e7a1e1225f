-- number of queues, queues..., ids...  ->  {of each queue: {waiting that may not be claimed yet, its first job, ms since
-- the last publish in its tier or '', tokens of what is leased}, of each id: a job, of each model the worker that holds
-- its job that must run alone}. A job is {} if it is nowhere, {id, worker} if one holds it, else {id, queue, tokens,
-- estimate, ms until it may be claimed or '', own jobs before it, other tenants' jobs before it, its tenant's jobs, whether
-- it must run alone}: then only such jobs of its queue are before it.
-- Reads only, and as much for a million waiting jobs as for one: each is a rank or a count in a sorted set.
local SKIPPED = 50    -- so many of the oldest are looked at for one that may be claimed, and beside others
local LEASED = 10     -- so many of a queue's leased jobs are looked at for what they hold
local now = now_ms()

-- The lengths that compete with this one, and of the sets that some workers serve the one where the tenant is served
-- first; nil if it is in none.
local function rivals(group, own_length, tenant)
  local lengths, first, at = { [own_length] = true }, nil, nil
  for _, set in pairs(sets_of(group)) do
    if includes(set.lengths, own_length) then
      for _, length in ipairs(set.lengths) do lengths[length] = true end
      local rank = call('ZRANK', set.index, tenant)
      if rank and (not first or rank < first) then first, at = rank, set end
    end
  end
  return lengths, at
end

local function own_before(group, own_length, id, tenant, lengths, alone_in)
  if alone_in then return call('ZRANK', P .. 'y:' .. alone_in, id) or 0 end
  local own = order_key(group, own_length, tenant)
  local count, order = call('ZRANK', own, id) or 0, call('ZSCORE', own, id)
  for length in pairs(lengths) do
    if length ~= own_length and order then
      count = count + call('ZCOUNT', order_key(group, length, tenant), '-inf', '(' .. order)
    end
  end
  return count
end

local function job(id)
  local entry = read(id)
  if not entry then return {} end
  if entry.claim then return { id, call('HGET', P .. 'e:' .. id, 'w') or '' } end
  local group, own_length = place(entry.queue)
  if not group then return {} end
  local from_ms = call('ZSCORE', P .. 'd:' .. entry.queue, id)
  local lengths, set = rivals(group, own_length, entry.tenant)
  local own = own_before(group, own_length, id, entry.tenant, lengths, entry.alone and entry.queue)
  return { id, entry.queue, int(tokens_of(entry)), entry.estimate, from_ms and int(math.max(0, from_ms - now)) or '',
    own, entry.alone and 0 or others_before(group, set, entry.tenant, tonumber(entry.estimate), own),
    call('HGET', P .. 'busy:' .. group.name, entry.tenant) or '0', entry.alone and 1 or 0 }
end

-- The oldest that may be claimed, and beside others; if none of the first may, the oldest.
local function first_of(queue)
  local ids = call('ZRANGE', P .. 'a:' .. queue, 0, SKIPPED - 1)
  for _, id in ipairs(ids) do
    local held = call('HMGET', P .. 'e:' .. id, 'd', 'y')
    if not held[1] and not held[2] then return id end
  end
  return ids[1]
end

local function came_ms_ago(queue)
  local group = place(queue)
  local came = group and call('HGET', P .. 'came:' .. group.model, group.tier)
  return came and int(math.max(0, now - came)) or ''
end

local function leased_tokens(queue)
  local ids, tokens = call('ZRANGE', P .. 'l:' .. queue, 0, LEASED - 1), 0
  for _, id in ipairs(ids) do
    local entry = read(id)
    tokens = tokens + (entry and tokens_of(entry) or 0)
  end
  return int(#ids < LEASED and tokens or tokens / #ids * call('ZCARD', P .. 'l:' .. queue))
end

local queues, jobs, alone, count = {}, {}, {}, tonumber(ARGV[2])
for i = 3, count + 2 do
  local id = first_of(ARGV[i])
  queues[#queues + 1] = { call('ZCARD', P .. 'd:' .. ARGV[i]), id and job(id) or {}, came_ms_ago(ARGV[i]),
    leased_tokens(ARGV[i]) }
end
for i = count + 3, #ARGV do jobs[#jobs + 1] = job(ARGV[i]) end
for _, model in ipairs(call('HKEYS', P .. 'runs_alone')) do alone[#alone + 1] = who_runs_alone(model) end
return { queues, jobs, alone }
