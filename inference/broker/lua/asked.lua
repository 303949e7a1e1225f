-- What a claim asks for. After the prefix: most jobs, free sequences, free KV tokens, margin a job, reserved sequences,
-- reserved KV tokens, whether it may be given a job to park, worker, lease ms, claim ids (16 bytes each, one for each
-- job at most), model, jobs in flight, slots, what it serves, number of tiers, of caps, of plain queues,
-- {tier, its lengths, those that are paused, each with commas; what its queues' names begin with, weight, whether it
-- uses the reserve, sequences of its share or '', KV tokens of it, gather jobs, gather ms}...,
-- {jobs, number of queues, queues...}...,  plain queues...
local tonumber, now = tonumber, now_ms()
local most, sequences, kv, margin = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local reserve = { sequences = tonumber(ARGV[6]), kv = tonumber(ARGV[7]) }
local may_park, worker, until_ms, claim_ids, model = ARGV[8] == '1', ARGV[9], now + tonumber(ARGV[10]), ARGV[11], ARGV[12]
local load = { in_flight = tonumber(ARGV[13]), slots = tonumber(ARGV[14]) }
local served = ARGV[15]    -- ' TIER:LENGTH TIER:LENGTH... ', with a space at either end
local tier_count, cap_count, plain_count = tonumber(ARGV[16]), tonumber(ARGV[17]), tonumber(ARGV[18])
local at = 19
local tiers, caps, plain = {}, {}, {}    -- tiers come in the order that breaks ties
local NONE = {}

for i = 1, tier_count do
  -- All fields are named at once, so that the table is made in its size.
  tiers[i] = {
    tier = ARGV[at], all = ARGV[at + 1], lengths = split(ARGV[at + 1]), paused = split(ARGV[at + 2]),
    queues = ARGV[at + 3], weight_text = ARGV[at + 4], weight = tonumber(ARGV[at + 4]),
    uses_reserve = ARGV[at + 5] == '1', share_sequences = tonumber(ARGV[at + 6]), share_kv = tonumber(ARGV[at + 7]),
    gather_jobs = tonumber(ARGV[at + 8]), gather_ms = tonumber(ARGV[at + 9]), is_gathering = false,
    group = group_of(model, ARGV[at]), pass = 0, floor = 0, seen = 0, is_back = false, is_moved = false,
    set = nil, open = nil, held = NONE, index = nil, tenant = nil, skips = 0, skipped = nil, is_stale = false,
  }
  at = at + 10
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
