-- What a claim asks for. After the prefix: most jobs, free sequences, free KV tokens, margin a job, reserved sequences,
-- reserved KV tokens, whether it may be given a job to park, worker, lease ms, claim ids (16 bytes each, one for each
-- job at most), model, jobs in flight, slots, what it serves, number of tiers, of caps, of plain queues,
-- {tier, weight, whether it uses the reserve, sequences of its share or '', KV tokens of it, gather jobs, gather ms,
-- its lengths joined by commas, {queue, whether paused} of each}...,  {jobs, number of queues, queues...}...,  plain queues...
local cursor = 1

local function text()
  cursor = cursor + 1
  return ARGV[cursor]
end

local function number() return tonumber(text()) end

local now = now_ms()
local most, sequences, kv, margin = number(), number(), number(), number()
local reserve = { sequences = number(), kv = number() }
local may_park, worker, until_ms, claim_ids, model = text() == '1', text(), now + number(), text(), text()
local load = { in_flight = number(), slots = number() }
local served = text()    -- ' TIER:LENGTH TIER:LENGTH... ', with a space at either end
local tier_count, cap_count, plain_count = number(), number(), number()

local function read_tier()
  local t = { model = model, tier = text(), weight_text = text(), uses_reserve = text() == '1', pass = 0, floor = 0,
    share_sequences = number(), share_kv = number(), gather_jobs = number(), gather_ms = number(), paused = {},
   
    all = text(), queues = {}, skips = 0, held = {} }
  t.group, t.weight, t.lengths = model .. ':' .. t.tier, tonumber(t.weight_text), split(t.all)
  for _, length in ipairs(t.lengths) do
    t.queues[length] = text()
    if text() == '1' then t.paused[length], t.has_paused = true, true end
  end
  return t
end

local function read_cap()
  local cap = { left = number(), queues = {} }
  for _ = 1, number() do
    local queue = text()
    cap.queues[queue] = true
    cap.left = cap.left - call('ZCARD', P .. 'l:' .. queue)
  end
  return cap
end

local tiers, caps, plain = {}, {}, {}    -- tiers come in the order that breaks ties
for i = 1, tier_count do tiers[i] = read_tier() end
for i = 1, cap_count do caps[i] = read_cap() end
for i = 1, plain_count do plain[i] = text() end

local again_ms

local function ask_again(after_ms)
  again_ms = math.min(again_ms or after_ms, math.ceil(after_ms))
end
