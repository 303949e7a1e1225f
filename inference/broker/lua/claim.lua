-- most jobs, KV tokens, margin a job, worker, lease ms, claim ids (16 bytes each, one for each job at most),
-- model, number of tiers, number of plain queues, {tier, weight, its lengths joined by commas}..., plain queues...,
-- job queues...
-- ->  {now, {id, claim, queue, tenant, prompt, expected, estimate, arrival, mailbox, streamed, body,
--         watched}...}
-- The order is that of inference/scheduling.py; tiers come in the order that breaks ties.
local SET_IDLE_MS, SET_TOUCH_MS = 600000, 60000
local most, kv, margin, worker = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local now = now_ms()
local model, tier_count, plain_count = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local until_ms, out = now + tonumber(ARGV[6]), { now }
local PLAIN = 11 + 3 * tier_count    -- where the queues' names begin

local function take(id, entry, body)
  local claim = string.sub(ARGV[7], (#out - 1) * 16 + 1, #out * 16)
  lease(id, entry.queue, claim, worker, until_ms)
  out[#out + 1] = { id, claim, entry.queue, entry.tenant, entry.prompt, entry.expected, entry.estimate, entry.arrival,
    entry.mailbox, entry.streamed, body, call('EXISTS', P .. 'w:' .. id) }
end

local function take_plain(queue)
  while #out <= most do
    local id = call('ZRANGE', P .. 'a:' .. queue, 0, 0)[1]
    if not id then return end
    local entry = read(id)
    dequeue(id, entry)
    take(id, entry, call('HGET', P .. 'e:' .. id, 'b'))
  end
end

-- A set of lengths that is new gets its indexes; sets that no worker claims with any more lose theirs.
local function make_set(t)
  call('DEL', t.index, P .. 'f:' .. t.group .. ':' .. t.set)
  for _, tenant in ipairs(call('HKEYS', P .. 'busy:' .. t.group)) do
    rank(t.group, t.set, split(t.set), tenant)
  end
end

local function ensure_sets(tiers)
  local key, used = P .. 'sets:' .. model, {}
  local fields = call('HGETALL', key)
  for i = 1, #fields, 2 do used[fields[i]] = tonumber(fields[i + 1]) end
  for _, t in ipairs(tiers) do
    local field = t.tier .. ':' .. t.set
    if not used[field] then make_set(t) end
    if not used[field] or now - used[field] > SET_TOUCH_MS then call('HSET', key, field, int(now)) end
    used[field] = now
  end
  set_fields[model] = {}
  for field, at_ms in pairs(used) do
    if now - at_ms > SET_IDLE_MS then
      call('HDEL', key, field)
      call('DEL', P .. 'i:' .. model .. ':' .. field, P .. 'f:' .. model .. ':' .. field)
    else
      table.insert(set_fields[model], field)
    end
  end
end

local function read_tier(at)
  local group, set = model .. ':' .. ARGV[at], ARGV[at + 2]
  return { model = model, tier = ARGV[at], weight = tonumber(ARGV[at + 1]), group = group, set = set, pass = 0,
    index = P .. 'i:' .. group .. ':' .. set }
end

-- The tenant whose turn it is within a tier; nil if the tier has no work.
local function find_tenant(t)
  t.tenant = call('ZRANGE', t.index, 0, 0)[1]
  return t.tenant
end

-- Tiers that were idle come back, beside those this claim serves.
local function place_tiers(tiers, key)
  local fields, floor = { '' }, nil
  for _, t in ipairs(tiers) do fields[#fields + 1], fields[#fields + 2] = t.tier, t.tier .. '+' end
  local found = call('HMGET', key, unpack(fields))
  for i, t in ipairs(tiers) do
    t.pass, t.is_new = tonumber(found[2 * i] or 0), found[2 * i + 1]
    if not t.is_new and (not floor or t.pass < floor) then floor = t.pass end
  end
  for _, t in ipairs(tiers) do
    if t.is_new then
      t.pass = math.max(t.pass, floor or tonumber(found[1] or 0))
      call('HDEL', key, t.tier .. '+')
      call('HSET', key, t.tier, t.pass)
    end
  end
end

local function smallest(tiers)
  local best
  for _, t in ipairs(tiers) do
    if t.tenant and (not best or t.pass < best.pass) then best = t end
  end
  return best
end

-- Take the next job of a tier and return its estimate; nil if it does not fit.
local function take_job(t)
  local id = head(t.group, t.tenant, sets_of(t)[t.set])
  local entry = read(id)
  local need = tokens_of(entry) + margin
  if need > kv then return nil end
  kv = kv - need
  local pass, estimate = pass_of(t.group, t.tenant), tonumber(entry.estimate)
  set_pass(t.group, t.tenant, pass + estimate / weight_of(t.tenant), '', pass)
  dequeue(id, entry)
  take(id, entry, '')
  refresh(t, t.tenant)
  return estimate
end

-- Returns the pass of the tier served last, before it was charged; nil if none was.
local function take_jobs(tiers)
  local last
  while #out <= most do
    local t = smallest(tiers)
    local estimate = t and take_job(t)
    if not estimate then return last end
    last, t.is_charged = t.pass, true
    t.pass = t.pass + estimate / t.weight
    if #out <= most then find_tenant(t) end
  end
  return last
end

local function take_and_charge(tiers)
  -- A worker that serves one tier makes no choice between tiers, and charges none.
  local key = P .. 'tiers:' .. model
  if tier_count > 1 then place_tiers(tiers, key) end
  local last = take_jobs(tiers)
  for _, t in ipairs(tiers) do
    if t.is_charged and tier_count > 1 then call('HSET', key, t.tier, t.pass, '', last) end
  end
end

local served, tiers = {}, {}
for i = 1, plain_count do take_plain(ARGV[PLAIN + i - 1]) end
for i = 1, tier_count do served[i] = read_tier(8 + 3 * i) end
if tier_count > 0 then ensure_sets(served) end
for _, t in ipairs(served) do
  if find_tenant(t) then tiers[#tiers + 1] = t end
end
if most > 0 and #tiers > 0 then take_and_charge(tiers) end
if most > 0 and #tiers == 0 and #out == 1 then
  -- Nothing is there to ring for.
  for i = PLAIN, #ARGV do call('DEL', P .. 'bell:' .. ARGV[i]) end
end
return out
