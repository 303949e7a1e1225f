-- What holds work back from a claim, tier by tier; as inference/turns.py.
local SET_IDLE_MS, SET_TOUCH_MS = 600000, 1000
local AT_ONCE = 1000              -- tenants of a new index that one command writes: its arguments are limited
local OVERTAKE_MS, MAX_SKIPS, ONLINE_MS = 2000, 8, 10000
local taken = 0

local function is_spent(allowance, queue) return allowance.left < 1 and allowance.queues[queue] end

local function is_capped(queue)
  for _, cap in ipairs(caps) do
    if is_spent(cap, queue) then return true end
  end
  return false
end

-- A set of lengths that is new gets its indexes.
local function make_set(group, name)
  group.sets = nil
  local set = sets_of(group)[name]
  call('DEL', set.index, set.floor)
  for i, tenant in ipairs(call('HKEYS', P .. 'busy:' .. group.name)) do
    rank(group, set, tenant)
    if i % AT_ONCE == 0 then write_deferred() end
  end
end

local function use_set(t)
  local used, field = used_sets(model), t.tier .. ':' .. t.set
  if used[field] and now - used[field] <= SET_TOUCH_MS then return end
  call('HSET', P .. 'sets:' .. model, field, int(now))
  local is_new = not used[field]
  used[field] = now
  if is_new then make_set(t.group, t.set) end
end

local function sort_out(t)
  t.open, t.held = {}, {}
  for _, length in ipairs(t.lengths) do
    local queue = queue_of(t, length)
    if includes(t.paused, length) or is_capped(queue) then
      t.held[#t.held + 1] = length
    elseif not (level and is_spent(level, queue)) then
      t.open[#t.open + 1] = length
    end
  end
  t.set = table.concat(t.open, ',')
end

-- Work out what may be taken of a tier now. Says whether that is different.
local function narrow(t)
  local before_this = t.set
  if level or #t.paused > 0 or cap_count > 0 then sort_out(t) else t.open, t.set = t.lengths, t.all end
  t.index = P .. 'i:' .. t.group.name .. ':' .. t.set
  if t.set ~= '' then use_set(t) end
  return t.set ~= before_this
end

-- Sets that no worker claims with any more lose their indexes.
local function forget_sets()
  local used = used_sets(model)
  for field, at_ms in pairs(used) do
    if now - at_ms > SET_IDLE_MS then
      call('HDEL', P .. 'sets:' .. model, field)
      call('DEL', P .. 'i:' .. model .. ':' .. field, P .. 'f:' .. model .. ':' .. field)
      used[field] = nil
      for _, t in ipairs(tiers) do t.group.sets = nil end
    end
  end
end

local function first_unskipped(t)
  if t.skips == 0 then return call('ZRANGE', t.index, '0', '0')[1] end
  for _, tenant in ipairs(call('ZRANGE', t.index, 0, t.skips)) do
    if not t.skipped[tenant] then return tenant end
  end
  return nil
end

-- The tenant whose turn it is within a tier; nil if the tier has no work that may be taken.
local function find_tenant(t)
  t.tenant = nil
  if t.set == '' or t.skips >= MAX_SKIPS then return end
  t.tenant = first_unskipped(t)
  for _ = 1, FIXES do
    if not t.tenant or not raise(t.group, t.tenant, t.open) then return end
    t.tenant = first_unskipped(t)
  end
end

local function came_lately(t)
  local came = tonumber(call('HGET', P .. 'came:' .. model, t.tier))
  return came and now - came <= ONLINE_MS
end

local function is_online_busy()
  for _, t in ipairs(tiers) do
    if not t.share_sequences and (t.tenant or came_lately(t)) then return true end
  end
  return false
end

-- A share binds only while online work waits, or came lately.
local function bind_shares()
  local has_shares = false
  for _, t in ipairs(tiers) do has_shares = has_shares or t.share_sequences end
  if has_shares and not is_online_busy() then
    for _, t in ipairs(tiers) do t.share_sequences, t.share_kv = nil, nil end
  end
end

-- All that waits in a tier gathers no more: what one worker leaves of it, others take.
local function let_go(t)
  local newest = 0
  for _, length in ipairs(t.open) do
    local last = call('ZRANGE', P .. 'a:' .. queue_of(t, length), -1, -1, 'WITHSCORES')
    newest = math.max(newest, tonumber(last[2]) or 0)
  end
  call('HSET', P .. 'gathered:' .. model, t.tier, newest)
end

-- How long busy workers still wait for more of this tier, ms.
local function gathering_ms(t)
  if t.gather_jobs == 0 or not t.tenant then return 0 end
  local waiting, oldest = 0, nil
  for _, length in ipairs(t.open) do
    local key = P .. 'a:' .. queue_of(t, length)
    local arrival = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    waiting = waiting + call('ZCARD', key)
    if arrival then oldest = math.min(oldest or arrival, arrival) end
  end
  if (oldest or 0) <= tonumber(call('HGET', P .. 'gathered:' .. model, t.tier) or 0) then return 0 end
  local left_ms = oldest + t.gather_ms - now
  if waiting < t.gather_jobs and left_ms > 0 then return left_ms end
  let_go(t)
  return 0
end

-- Whether a worker that has other work waits for more of this tier to come.
local function gathers(t)
  local left_ms = gathering_ms(t)
  if left_ms <= 0 or load.in_flight == 0 then return false end
  ask_again(left_ms)
  return true
end

-- Whether reserve, share, a gather window or a job that waits for the share holds the whole tier back.
local function is_barred(t)
  return t.is_gathering or t.is_emptying or (not t.uses_reserve and sequences - taken <= reserve.sequences)
    or (t.share_sequences ~= nil and t.share_sequences < 1)
end

local function room_of(t)
  local free = t.uses_reserve and kv or kv - reserve.kv
  return t.share_kv and math.min(free, t.share_kv) or free
end

-- Whether a job can never run here, and may elsewhere.
local function is_for_larger(t, length, tokens) return tokens > whole and includes(split(t.larger), length) end

-- Since when a job does not fit: now, if it did so far.
local function unfit_since(id, entry)
  if not entry.unfit then call('HSET', P .. 'e:' .. id, 'u', int(now)) end
  return tonumber(entry.unfit) or now
end

-- Whether a job that does not fit has waited for room long enough to be parked here.
local function may_be_parked(id, entry)
  local since = unfit_since(id, entry)
  if not may_park then return false end
  if now - since >= OVERTAKE_MS then return true end
  ask_again(since + OVERTAKE_MS - now)
  return false
end

-- The first of the tenant's heads that fits, or is to be parked: id, entry, need, whether to park it, length.
local function fitting(t)
  local tried
  while true do
    local id, length = head(t.group, t.tenant, t.open, tried)
    if not id then return nil end
    local entry = read_first(id)
    local need = entry and tokens_of(entry) + margin
    if not entry then
      leave_order(id, t.group, length, t.tenant)
      drop_lost(id, queue_of(t, length))
      refresh(t.group, t.tenant)
    elseif is_for_larger(t, length, need - margin) then
      tried = tried or {}
      tried[length] = true
    elseif need <= room_of(t) then
      return id, entry, need, false, length
    elseif t.share_kv and need > t.share_kv then
      -- Not the room bars it but its tier's share, which is for a job of any size once the tier holds nothing here.
      if now - unfit_since(id, entry) >= OVERTAKE_MS then
        t.is_emptying = true
        return nil
      end
      tried = tried or {}
      tried[length] = true
    elseif may_be_parked(id, entry) then
      return id, entry, need, true, length
    else
      tried = tried or {}
      tried[length] = true
    end
  end
end
