-- numbers (queues, jobs, ms that a reservation holds; limits, below 0 where there is none: of the key requests a second,
-- requests and tokens a minute; of the tenant requests and tokens a minute, jobs waiting, jobs unfinished; payers), tenant,
-- owner, ticket, month, {payer, its budget}...,
-- {queue, numbers (caps in jobs, tokens, bytes and longest wait ms, each below 0 where there is none; slots; slots that caps
-- in flight leave it, or below 0; ms a prompt token, ms an output token, expected output where nothing is known, bytes that
-- may wait in all queues or below 0, most jobs on hold, whether jobs may spill, how many of the queues that follow are of its
-- tier, how many follow; billionths that a prompt token, an output token and a ms of service cost), {the weight of a tier as
-- heavy or heavier over its own, how many queues follow of it}... packed, keys of what was learned of outputs and speed
-- less the prefix, all queues of the model: of its tier, of those tiers, the others...}...,
-- {id, numbers (which queue, prompt tokens, most output, bytes)}...
-- ->  {what refuses or '', its name, limit, value, more asked for, ms until it may fit or '', of a budget what is spent,
--      {requests and tokens of the key in a minute, ms until that has cleared, the same of the tenant} or '' each,
--      {what was learned of outputs, of speed, '' or, if it took the jobs on hold, what it would have refused for, limit,
--       value, more asked for; whether it spilled them} for each queue}. As inference/admission/decisions.py.
local now = now_ms()
local queue_count, job_count, hold_ms, key_second, key_requests, key_tokens, tenant_requests, tenant_tokens, most_waiting,
  most_unfinished, payer_count = struct.unpack('<ddddddddddd', ARGV[2])
local tenant, owner, ticket, queues, jobs, all_tokens = ARGV[3], ARGV[4], ARGV[5], {}, {}, 0
local month, payers, budgets, all_cost, at = ARGV[6], {}, {}, 0, 7

for i = 1, payer_count do
  payers[i], budgets[i] = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
end

for i = 1, queue_count do
  local queue, line_count, count = { name = ARGV[at], jobs = 0, tokens = 0, bytes = 0, work = 0 }, nil, nil
  queue.cap_jobs, queue.cap_tokens, queue.cap_bytes, queue.max_wait, queue.slots, queue.own_slots, queue.prompt_ms,
    queue.output_ms, queue.expected, queue.cap_all, queue.most_held, queue.may_spill, line_count, count,
    queue.prompt_cost, queue.output_cost, queue.ms_cost = struct.unpack('<ddddddddddddddddd', ARGV[at + 1])
  queue.output, queue.speed = ARGV[at + 3], ARGV[at + 4]
  queue.all, queue.line, queue.before = { unpack(ARGV, at + 5, at + 4 + count) }, { unpack(ARGV, at + 5, at + 4 + line_count) }, {}
  local from = at + 5 + line_count
  for j = 1, #ARGV[at + 2], 16 do
    local ratio, tier_count = struct.unpack('<dd', ARGV[at + 2], j)
    table.insert(queue.before, { ratio = ratio, queues = { unpack(ARGV, from, from + tier_count - 1) } })
    from = from + tier_count
  end
  queue.learned = call('MGET', P .. queue.output, P .. queue.speed)
  local seen = queue.learned[1] and tonumber(string.match(queue.learned[1], '^(%S+)'))
  if seen then queue.expected = math.ceil(seen) end
  queues[i], at = queue, at + 5 + count
end

for i = 1, job_count do
  local which, prompt, most, bytes = struct.unpack('<dddd', ARGV[at + 1])
  local queue = queues[which]
  local expected = math.max(1, math.min(queue.expected, most))
  local job = { id = ARGV[at], queue = queue, tokens = prompt + expected, bytes = bytes,
    work = math.floor(prompt * queue.prompt_ms + expected * queue.output_ms + 0.5) }
  queue.jobs, queue.tokens = queue.jobs + 1, queue.tokens + job.tokens
  queue.bytes, queue.work = queue.bytes + bytes, queue.work + job.work
  job.cost = prompt * queue.prompt_cost + expected * queue.output_cost + job.work * queue.ms_cost
  jobs[i], all_tokens, all_cost, at = job, all_tokens + job.tokens, all_cost + job.cost, at + 2
end

local rate, burst = key_windows(owner)
local of_second = key_second >= 0 and read_window(burst, SECOND, now)
local of_key = (key_requests >= 0 or key_tokens >= 0) and read_window(rate, MINUTE, now)
local of_tenant = (tenant_requests >= 0 or tenant_tokens >= 0) and read_window(tenant_window(tenant), MINUTE, now)

local function refusal(what, name, limit, value, asked, after) return { what, name, limit, value, asked, after } end

local function rate_refusal(what, name, window, field, limit, asked)
  if not window or limit < 0 or window[field] + asked <= limit then return nil end
  return refusal(what, name, limit, window[field], asked, fits_after(window, field, asked, limit, now))
end

local function check_rates()
  return rate_refusal('requests_per_second', owner, of_second, 'requests', key_second, job_count)
    or rate_refusal('requests_per_minute', owner, of_key, 'requests', key_requests, job_count)
    or rate_refusal('tokens_per_minute', owner, of_key, 'tokens', key_tokens, all_tokens)
    or rate_refusal('requests_per_minute', 'tenant=' .. tenant, of_tenant, 'requests', tenant_requests, job_count)
    or rate_refusal('tokens_per_minute', 'tenant=' .. tenant, of_tenant, 'tokens', tenant_tokens, all_tokens)
end

local function check_tenant()
  if most_waiting < 0 and most_unfinished < 0 then return nil end
  local waiting, unfinished = tenants_jobs(tenant, now)
  if most_waiting >= 0 and waiting + job_count > most_waiting then
    return refusal('tenant_queued_jobs', tenant, most_waiting, waiting, job_count)
  end
  if most_unfinished >= 0 and unfinished + job_count > most_unfinished then
    return refusal('tenant_unfinished_jobs', tenant, most_unfinished, unfinished, job_count)
  end
end

-- What costs nothing passes no budget.
local function check_budgets()
  for i, payer in ipairs(all_cost > 0 and payers or {}) do
    local spent = spent_of(payer, month)
    if not spent then return refusal('spent_unknown', payer, budgets[i], 0, all_cost) end
    local taken = spent + reserved_cost_of(payer)
    if taken + all_cost > budgets[i] then
      local refused = refusal('budget', payer, budgets[i], taken, all_cost)
      refused[7] = spent
      return refused
    end
  end
end

-- By what waits before them: a part of its own tier and what goes before that of weightier ones; where caps in flight leave
-- the queue fewer slots, behind a part of its own in those. `kept` are not there yet.
local function wait_by_work(queue, kept, part, own_part)
  local waiting = cards('a:', queue.line) + cards('r:', queue.line)
  local jobs = (waiting + kept + queue.jobs) * part
  local own_work = jobs * mean_work(queue, queue.line, waiting)
  local work = own_work
  for _, tier in ipairs(queue.before) do
    local more, more_work = before_by_weight(tier, own_work)
    jobs, work = jobs + more, work + more_work
  end
  local wait = wait_behind(jobs, work, cards('l:', queue.all), queue.slots)
  if queue.own_slots < 0 then return wait end
  local own = { queue.name }
  jobs = (queue.waiting + kept + queue.jobs) * own_part
  work = jobs * mean_work(queue, own, queue.waiting)
  return math.max(wait, wait_behind(jobs, work, cards('l:', own), queue.own_slots))
end

-- Which part goes before the last of these, if tenants take turns, of its tier's waiting jobs and those that room is kept
-- for: none waits for another's dump.
local function part_before(queue)
  local busy, waiting = P .. 'busy:' .. string.gsub(queue.name, '^(.*)%.([^.]+)%.[^.]+$', '%1:%2'), cards('a:', queue.line)
  local own, tenants = tonumber(call('HGET', busy, tenant) or 0), call('HLEN', busy)
  if own == 0 then tenants = tenants + 1 end
  return math.min(1, (own + queue.own_soon + queue.jobs) * tenants / (waiting + queue.soon + queue.jobs))
end

-- The same of its own queue, at least what of it is the tenant's: another's jobs of other lengths do not thin it out.
local function own_part_before(queue, part)
  local order = P .. 'o:' .. string.gsub(queue.name, '^(.*)%.([^.]+)%.([^.]+)$', '%1:%2:%3') .. ':' .. tenant
  local own = call('ZCARD', order) + queue.own_soon + queue.jobs
  return math.min(1, math.max(part, own / (queue.waiting + queue.soon + queue.jobs)))
end

-- The longer of what is expected and what was measured, unless they could start at once. Whose turn has come by the line is
-- let in at the rate at which jobs leave: that changes no wait, but for what leaves more slowly than it did.
local function wait_of(queue)
  local part = part_before(queue)
  local own_part = own_part_before(queue, part)
  local wait = wait_by_work(queue, queue.soon, part, own_part)
  if wait == 0 then return 0 end
  local measured = measured_wait(queue.name, queue.waiting + queue.soon + queue.jobs, now) * own_part
  return math.ceil(math.max(wait, queue.turn and measured / BEARS or measured))
end

local function check_amount(what, queue, hash, names, limit, asked)
  if limit < 0 then return nil end
  local value = sum_of(hash, names)
  if value + asked > limit then return refusal(what, queue.name, limit, value, asked) end
end

-- Room that is kept for others whose turn has come; of the wait, also for those whose turn comes soon. Who could start at
-- once is let by: else a slot would stay empty for somebody who may not come.
local function kept_of(queue)
  queue.soon, queue.own_soon = 0, 0
  if call('EXISTS', turns_key(queue.name)) == 0 then return 0 end
  queue.turn = turn_of(queue.name, ticket, now)
  local last = now + math.max(EARLY_MS, BEARS * queue.max_wait)
  local soon, own_soon = turns_before(queue.name, ticket, tenant, queue.turn, last, now)
  if soon == 0 or wait_by_work(queue, 0, 1, 1) == 0 then return 0 end
  queue.soon, queue.own_soon = soon, own_soon
  if queue.turn or queue.max_wait < 0 then return soon end
  return (turns_before(queue.name, ticket, tenant, nil, now + EARLY_MS, now))
end

-- What a queue refuses for.
local function check_room(queue)
  local kept, own = kept_of(queue), { queue.name }
  if queue.cap_jobs >= 0 and queue.waiting + kept + queue.jobs > queue.cap_jobs then
    return refusal('queue_jobs', queue.name, queue.cap_jobs, queue.waiting + kept, queue.jobs)
  end
  local refused = check_amount('queue_tokens', queue, 'tokens', own, queue.cap_tokens, queue.tokens)
    or check_amount('queue_bytes', queue, 'bytes', own, queue.cap_bytes, queue.bytes)
    or check_amount('model_bytes', queue, 'bytes', queue.all, queue.cap_all, queue.bytes)
  if refused or queue.max_wait < 0 then return refused end
  local wait = wait_of(queue)
  if wait > queue.max_wait then return refusal('wait', queue.name, queue.max_wait, wait, queue.jobs) end
end

local function ever_fits(asked, limit) return limit < 0 or asked <= limit end

-- Whether a full queue takes the jobs on hold: those that its caps could hold, while the model's bytes can.
local function may_hold(queue)
  return queue.most_held > 0 and ever_fits(queue.jobs, queue.cap_jobs) and ever_fits(queue.tokens, queue.cap_tokens)
    and ever_fits(queue.bytes, queue.cap_bytes)
    and not check_amount('model_bytes', queue, 'bytes', queue.all, queue.cap_all, queue.bytes)
    and call('SCARD', P .. 'hold:' .. queue.name) + queue.jobs <= queue.most_held
end

-- Whether the jobs are kept out of the queue: it is full, or others wait before them to come in. Not one that the queue
-- would never take.
local function may_spill(queue, refused)
  if queue.may_spill == 0 or queue.cap_jobs == 0 then return false end
  if not refused and call('EXISTS', P .. 'spilled:' .. queue.name) == 0 then return false end
  for _, job in ipairs(jobs) do
    local fits = ever_fits(job.tokens, queue.cap_tokens) and ever_fits(job.bytes, queue.cap_bytes)
      and ever_fits(job.bytes, queue.cap_all)
    if job.queue == queue and not fits then return false end
  end
  queue.spills = true
  return true
end

local function check_queue(queue)
  queue.reserved = call('ZCARD', P .. 'r:' .. queue.name)
  if queue.reserved > 0 then
    lapse(queue.name, now)
    queue.reserved = call('ZCARD', P .. 'r:' .. queue.name)
  end
  queue.waiting = call('ZCARD', P .. 'a:' .. queue.name) + queue.reserved
  local refused = check_room(queue)
  if may_spill(queue, refused) or not refused then return nil end
  if may_hold(queue) then
    queue.held = { refused[1], int(refused[3]), int(refused[4]), int(refused[5]) }
    return nil
  end
  if refused[5] > refused[3] and refused[1] ~= 'wait' then return refused end    -- it never fits
  local slots = queue.own_slots < 0 and queue.slots or queue.own_slots
  local expected = slots / math.max(1, queue.work / queue.jobs)
  if queue.turn then use_turn(queue.name, ticket, tenant, queue.turn) end    -- else its room is kept for nobody
  refused[6] = give_turn(queue.name, ticket, tenant, queue.jobs, drain_of(queue.name, expected, now), now)
  return refused
end

local function check_queues()
  for _, queue in ipairs(queues) do
    local refused = check_queue(queue)
    if refused then return refused end
  end
end

local function reserve(job)
  local of = { tokens = job.tokens, bytes = job.bytes, work = job.work, at = now, queue = job.queue.name, tenant = tenant,
    metered = (key_tokens >= 0 or tenant_tokens >= 0) and 1 or 0, owner = key_tokens >= 0 and owner or '', spilled = 0,
    of_second = of_second and 1 or 0, of_key = of_key and 1 or 0, of_tenant = of_tenant and 1 or 0 }
  if not call('SET', P .. 'v:' .. job.id, pack_reserved(of), 'NX') then return end
  reserve_cost(job.id, job.cost, payers)
  if job.queue.spills then return spill(job.id, of) end
  call('ZADD', P .. 'r:' .. of.queue, int(now + hold_ms), job.id)
  call('ZADD', P .. 'jobs:' .. tenant, 'NX', int(now + hold_ms), job.id)
  count(of.queue, of.tokens, of.bytes, of.work)
  if job.queue.held then call('SADD', P .. 'hold:' .. of.queue, job.id) end
end

local function take()
  for _, job in ipairs(jobs) do reserve(job) end
  for _, queue in ipairs(queues) do
    if queue.reserved == 0 and not queue.spills then call('SADD', P .. 'admitting', queue.name) end
    if queue.turn then use_turn(queue.name, ticket, tenant, queue.turn) end
  end
  for _, window in pairs({ of_second, of_key, of_tenant }) do
    if window then
      add_to_window(window, job_count, all_tokens)
      write_window(window)
    end
  end
end

local refused = check_rates() or check_tenant() or check_budgets() or check_queues()
if not refused then take() end

local function told(window)
  return window and { int(window.requests), int(window.tokens), int(clears_after(window, now)) } or ''
end

local said, learned = refused or {}, {}
for i, queue in ipairs(queues) do
  local held, spills = not refused and queue.held or '', not refused and queue.spills and 1 or 0
  learned[i] = { queue.learned[1] or '', queue.learned[2] or '', held, spills }
end
return { said[1] or '', said[2] or '', said[3] and int(said[3]) or '', said[4] and int(said[4]) or '',
  said[5] and int(said[5]) or '', said[6] and int(said[6]) or '', said[7] and int(said[7]) or '',
  told(of_key), told(of_tenant), learned }
