-- What a claim asks for. After the prefix: numbers (most jobs, free sequences, free KV tokens, margin a job, reserved
-- sequences, reserved KV tokens, whether it may be given a job to park, lease ms, jobs in flight, slots, how many tiers,
-- caps, plain queues, whole KV tokens, ms until a job that must run alone is due or -1), worker, claim ids (16 bytes each,
-- one for each job at most), model, what it serves, {tier, its lengths, those that are paused, those that a larger
-- worker serves too, each with commas; what its queues' names begin with, numbers (weight, whether it uses the reserve,
-- whether it has a share, its sequences and KV tokens, gather jobs, gather ms, target wait ms or below 0)}...,
-- {jobs, number of queues, queues...}...,  plain queues...
-- Numbers come packed, as doubles: to read one from text takes the server 1,700 instructions and more.
local now = now_ms()
local most, sequences, kv, margin, reserved_sequences, reserved_kv, may_park, lease_ms, in_flight, slots,
  tier_count, cap_count, plain_count, whole, alone_ms = struct.unpack('<ddddddddddddddd', ARGV[2])
local reserve, load = { sequences = reserved_sequences, kv = reserved_kv }, { in_flight = in_flight, slots = slots }
local worker, claim_ids, model, until_ms = ARGV[3], ARGV[4], ARGV[5], int(now + lease_ms)
local served = ARGV[6]    -- ' TIER:LENGTH TIER:LENGTH... ', with a space at either end
may_park = may_park == 1

-- All fields are named at once, so that the table is made in its size.
local function read_tier(tier, lengths, paused, larger, queues, numbers)
  local weight, uses_reserve, has_share, share_sequences, share_kv, gather_jobs, gather_ms, target_ms =
    struct.unpack('<dddddddd', numbers)
  if has_share == 0 then share_sequences, share_kv = nil, nil end
  return {
    tier = tier, group = group_of(model, tier), all = lengths, lengths = split(lengths), paused = split(paused),
    larger = larger, queues = queues, weight = weight, uses_reserve = uses_reserve == 1, share_sequences = share_sequences,
    share_kv = share_kv, gather_jobs = gather_jobs, gather_ms = gather_ms, target_ms = target_ms, starts = {}, is_gathering = false, is_emptying = false,
    pass = 0, floor = 0, seen = 0, is_back = false, is_moved = false,
    set = nil, open = nil, held = {}, index = nil, tenant = nil, skips = 0, skipped = nil, is_stale = false,
  }
end

local tiers, caps, plain = {}, {}, {}    -- tiers come in the order that breaks ties
local at = 7

for i = 1, tier_count do
  tiers[i] = read_tier(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5])
  at = at + 6
end

local function queue_of(t, length) return t.queues .. length end

for i = 1, cap_count do
  local cap = { left = tonumber(ARGV[at]), queues = {} }
  for j = at + 2, at + 1 + tonumber(ARGV[at + 1]) do
    cap.queues[ARGV[j]] = true
    cap.left = cap.left - call('ZCARD', P .. 'l:' .. ARGV[j])
  end
  caps[i], at = cap, at + 2 + tonumber(ARGV[at + 1])
end
for i = 1, plain_count do plain[i] = ARGV[at + i - 1] end

local again_ms

local function ask_again(after_ms)
  again_ms = math.min(again_ms or after_ms, math.ceil(after_ms))
end
