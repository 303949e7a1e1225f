-- most jobs, KV tokens, margin a job, worker, lease ms, claim ids (16 bytes each, one for each job at most),
-- number of plain queues, plain queues..., model, {tier, weight, number of lengths, {length, queue}...}...
-- ->  {now, {id, claim, queue, tenant, prompt, expected, estimate, arrival, mailbox, streamed, body}...}
-- The order is that of inference/scheduling.py; tiers come in the order that breaks ties.
local SET_IDLE_MS, SET_TOUCH_MS = 600000, 60000
local most, kv, margin, worker = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local now = now_ms()
local until_ms, out, at, bells = now + tonumber(ARGV[6]), { now }, 8, {}

local function argument()
  at = at + 1
  return ARGV[at - 1]
end

local function take(id, entry, body)
  local claim = string.sub(ARGV[7], (#out - 1) * 16 + 1, #out * 16)
  lease(id, entry.queue, claim, worker, int(now), until_ms)
  out[#out + 1] = { id, claim, entry.queue, entry.tenant, entry.prompt, entry.expected, entry.estimate, entry.arrival,
    entry.mailbox, entry.streamed, body }
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

-- The first claim with a set of lengths makes its indexes; sets that no worker has any more are dropped.
local function ensure_set(group, set, lengths)
  local used = tonumber(call('HGET', P .. 'sets:' .. group, set))
  if used and now - used < SET_TOUCH_MS then return end
  call('HSET', P .. 'sets:' .. group, set, int(now))
  for other in pairs(sets_of(group)) do
    if now - tonumber(call('HGET', P .. 'sets:' .. group, other) or now) > SET_IDLE_MS then
      call('HDEL', P .. 'sets:' .. group, other)
      call('DEL', P .. 'i:' .. group .. ':' .. other, P .. 'f:' .. group .. ':' .. other)
    end
  end
  sets_read[group] = nil
  if used then return end
  call('DEL', P .. 'i:' .. group .. ':' .. set, P .. 'f:' .. group .. ':' .. set)
  for _, tenant in ipairs(call('HKEYS', P .. 'busy:' .. group)) do
    rank(group, set, lengths, tenant, pass_of(group, tenant), weight_of(tenant))
  end
end

local function read_tier(model)
  local tier, weight, lengths = argument(), tonumber(argument()), {}
  for i = 1, tonumber(argument()) do
    lengths[i] = argument()
    bells[#bells + 1] = P .. 'bell:' .. argument()
  end
  local group, set = model .. ':' .. tier, table.concat(lengths, ',')
  ensure_set(group, set, lengths)
  return { tier = tier, weight = weight, group = group, lengths = lengths, index = P .. 'i:' .. group .. ':' .. set }
end

-- Tiers that were idle come back, beside those this claim serves.
local function place_tiers(tiers, key)
  local floor
  for _, t in ipairs(tiers) do
    local found = call('HMGET', key, t.tier, t.tier .. '+')
    t.pass, t.is_new = tonumber(found[1] or 0), found[2]
    if not t.is_new and (not floor or t.pass < floor) then floor = t.pass end
  end
  floor = floor or tonumber(call('HGET', key, '') or 0)
  for _, t in ipairs(tiers) do
    if t.is_new then
      t.pass = math.max(t.pass, floor)
      call('HDEL', key, t.tier .. '+')
      call('HSET', key, t.tier, t.pass)
    end
  end
end

local function smallest(tiers)
  local best
  for i, t in ipairs(tiers) do
    if not best or t.pass < tiers[best].pass then best = i end
  end
  return best
end

-- A job of this tier. 'empty': it has none; 'full': it does not fit; else its estimate.
local function take_job(t)
  local tenant = call('ZRANGE', t.index, 0, 0)[1]
  if not tenant then return 'empty' end
  local id = head(t.group, tenant, t.lengths)
  local entry = read(id)
  local need = tokens_of(entry) + margin
  if need > kv then return 'full' end
  kv = kv - need
  local pass, estimate = pass_of(t.group, tenant), tonumber(entry.estimate)
  call('HSET', P .. 'pass:' .. t.group, tenant, pass + estimate / weight_of(tenant), '', pass)
  dequeue(id, entry)
  take(id, entry, '')
  refresh(t.group, tenant)
  return estimate
end

local function take_jobs(tiers, key)
  while #out <= most do
    local which = smallest(tiers)
    if not which then return end
    local t = tiers[which]
    local result = take_job(t)
    if result == 'full' then return end
    if result == 'empty' then
      table.remove(tiers, which)
    elseif key then
      call('HSET', key, t.tier, t.pass + result / t.weight, '', t.pass)
      t.pass = t.pass + result / t.weight
    end
  end
end

for _ = 1, tonumber(argument()) do
  local queue = argument()
  bells[#bells + 1] = P .. 'bell:' .. queue
  take_plain(queue)
end

local model, served, tiers = argument(), 0, {}
while at <= #ARGV do
  local t = read_tier(model)
  served = served + 1
  t.pass = 0
  if call('EXISTS', t.index) == 1 then tiers[#tiers + 1] = t end
end
if most > 0 then
  -- A worker that serves one tier makes no choice between tiers, and charges none.
  local key = served > 1 and P .. 'tiers:' .. model or nil
  if #tiers == 0 and #out == 1 and #bells > 0 then call('DEL', unpack(bells)) end
  if key then place_tiers(tiers, key) end
  take_jobs(tiers, key)
end
return out
