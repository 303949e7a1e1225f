-- See asked.lua  ->  {now, when to ask again, ms, or '', {id, claim, queue, tenant, prompt, expected, estimate, arrival,
--                    mailbox, streamed, body, watched, parked (2: to run alone)}...}
-- The order is that of inference/scheduling.py and inference/turns.py.
local AWAY_MS = 10000
local POLLS_MS = '2000'    -- several polls of an idle worker
local out, is_parked, is_alone = { now, '' }, false, false

-- Further fields and values of the entry may follow.
local function take(id, entry, body, ...)
  local claim = string.sub(claim_ids, taken * 16 + 1, taken * 16 + 16)
  taken = taken + 1
  call('HSET', P .. 'e:' .. id, 'c', claim, 'w', worker, ...)
  note_moved(id, entry, until_ms)
  if entry.unfit then call('HDEL', P .. 'e:' .. id, 'u') end
  out[taken + 2] = { id, claim, entry.queue, entry.tenant, entry.prompt, entry.expected, entry.estimate, entry.arrival,
    entry.mailbox, entry.streamed, body, 0, is_alone and 2 or is_parked and 1 or 0 }
end

-- Say which of the jobs taken are watched. Mostly none is, and one command tells.
local function look_for_watchers()
  local keys = {}
  for i = 1, taken do keys[i] = P .. 'w:' .. out[i + 2][1] end
  if call('EXISTS', unpack(keys)) == 0 then return end
  for i = 1, taken do out[i + 2][12] = call('EXISTS', keys[i]) end
end

local function take_plain(queue)
  while taken < most do
    local ids = call('ZRANGE', P .. 'a:' .. queue, 0, most - taken - 1)
    if #ids == 0 then return end
    for _, id in ipairs(ids) do
      local entry = read(id)
      if entry then take(id, entry, call('HGET', P .. 'e:' .. id, 'b')) else drop_lost(id, queue) end
    end
    move_taken(now)
  end
end

local function read_passes()
  local names = {}
  for i, t in ipairs(tiers) do names[i] = t.tier end
  local found = call('HMGET', P .. 'tiers:' .. model, unpack(names))
  for i, t in ipairs(tiers) do t.pass, t.floor, t.seen = unpack_tier(found[i]) end
end

-- Tiers that took no part in choices for a while, or never yet, come beside those that did.
local function place_absent()
  local seen, floor = 0, nil
  for _, t in ipairs(tiers) do seen = math.max(seen, t.seen) end
  for _, t in ipairs(tiers) do
    t.is_back = seen - t.seen > AWAY_MS
    if not t.is_back then floor = math.min(floor or t.pass, t.pass) end
  end
  for _, t in ipairs(tiers) do
    if t.is_back then t.pass, t.floor = math.max(t.pass, floor or 0), math.max(t.floor, floor or 0) end
    t.is_moved = t.is_back or now - t.seen > SET_TOUCH_MS
    if t.is_moved then t.seen = now end
  end
end

local function write_passes()
  local fields = {}
  for _, t in ipairs(tiers) do
    if t.is_moved then
      fields[#fields + 1] = t.tier
      fields[#fields + 1] = pack_tier(t.pass, t.floor, t.seen)
    end
  end
  if #fields > 0 then call('HSET', P .. 'tiers:' .. model, unpack(fields)) end
end

local function goes_before(t, other)
  if t.pass ~= other.pass then return t.pass < other.pass end
  return t.is_back and not other.is_back
end

local function next_tier()
  local best
  for _, t in ipairs(tiers) do
    if t.tenant and not is_barred(t) and (not best or goes_before(t, best)) then best = t end
  end
  return best
end

-- Who may not take part in this choice falls no further behind than where it was made.
local function push_held_back(pass)
  for _, t in ipairs(tiers) do
    if t.skips == 0 and (not t.tenant or is_barred(t)) and t.floor < pass then
      t.pass, t.floor, t.is_moved = math.max(t.pass, pass), pass, true
    end
  end
end

local function mark(t, length, pass)
  local marks, field = marks_of(model) or {}, t.tier .. ':' .. length
  if marks[field] and marks[field] >= pass then return end
  marks[field], marks_read[model] = pass, marks
  call('HSET', P .. 'marks:' .. model, field, pass)
end

local function charge(t, entry)
  local pass, weight = pass_of(t.group, entry.tenant), weight_of(entry.tenant)
  local estimate = tonumber(entry.estimate)
  set_pass(t.group, entry.tenant, pass + estimate / weight)
  write_pass(t.group, '', pass)
  for _, length in ipairs(t.held) do mark(t, length, pass) end
  if tier_count == 1 then return struct.pack('<dd', weight, 0) end
  t.pass, t.is_moved = t.pass + estimate / t.weight, true
  return struct.pack('<dd', weight, t.weight)
end

-- Fields and values of an entry that a cap counts; what it frees at its end, others wait for.
local function is_counted(queue)
  for _, cap in ipairs(caps) do
    if cap.queues[queue] then return 'k', '1' end
  end
end

local function count_in(allowance, queue)
  if not allowance.queues[queue] then return false end
  allowance.left = allowance.left - 1
  return allowance.left < 1
end

-- Says whether something may not be taken any more.
local function count(queue)
  local is_any_spent = level and count_in(level, queue)
  for _, cap in ipairs(caps) do is_any_spent = count_in(cap, queue) or is_any_spent end
  return is_any_spent
end

local function take_job(t, id, entry, need, length)
  kv = kv - need
  if t.share_sequences then t.share_sequences, t.share_kv = t.share_sequences - 1, t.share_kv - need end
  leave_order(id, t.group, length, entry.tenant)
  if is_parked then    -- it begins later (began.lua)
    take(id, entry, '', 'g', charge(t, entry), is_counted(entry.queue))
  else
    take(id, entry, '', 'g', charge(t, entry), 'j', judge(t, entry, now), is_counted(entry.queue))
  end
  refresh(t.group, entry.tenant)
  t.is_stale = true
  if not count(entry.queue) then return end
  for _, other in ipairs(tiers) do other.is_stale = narrow(other) or other.is_stale end
end

-- The first that must run alone and may be taken here, heavier tiers first: id, entry. Forgets one that is lost.
local function next_alone()
  local queues = call('SMEMBERS', P .. 'alone:' .. model)
  if #queues == 0 or who_runs_alone(model) then return nil end
  for _, t in ipairs(tiers) do
    local best, first, at
    for _, length in ipairs(t.open) do
      local queue = queue_of(t, length)
      local found = includes(queues, queue) and call('ZRANGE', P .. 'y:' .. queue, 0, 0, 'WITHSCORES') or {}
      local id, arrival = found[1], tonumber(found[2] or 0)
      local entry = id and read_first(id)
      if id and not entry then
        leave_alone(id, queue)
        drop_lost(id, queue)
      elseif id and not is_for_larger(t, length, tokens_of(entry))
        and (not best or arrival < at or (arrival == at and before(id, best))) then
        best, first, at = id, entry, arrival
      end
    end
    if best then return best, first end
  end
end

-- Nobody is charged for it: it costs the others more than it says.
local function take_alone()
  local id, entry = next_alone()
  if not id then return end
  is_parked, is_alone = true, true
  leave_alone(id, entry.queue)
  call('HSET', P .. 'runs_alone', model, id)
  take(id, entry, '', is_counted(entry.queue))
  count(entry.queue)
end

-- It is not due: one goes while there is nothing else to do, else its time is to be waited for.
local function look_for_alone()
  if taken == 0 and load.in_flight == 0 then
    take_alone()
  elseif next_alone() then
    ask_again(alone_ms)
  end
end

local function serve(t)
  local id, entry, need, parks, length = fitting(t)
  if not id then
    t.skipped = t.skipped or {}
    t.skipped[t.tenant], t.skips = true, t.skips + 1
    return find_tenant(t)
  end
  -- A worker that serves one tier makes no choice between tiers, and charges none.
  if tier_count > 1 then push_held_back(t.pass) end
  is_parked = parks
  take_job(t, id, entry, need, length)
  if taken >= most or is_parked then return end
  for _, each in ipairs(tiers) do
    if each.is_stale then find_tenant(each) end
    each.is_stale = false
  end
end

local function take_jobs()
  meet_others()
  if level and level.left < 1 then
    for _, t in ipairs(tiers) do narrow(t) end
  end
  local has_work = level ~= nil
  for _, t in ipairs(tiers) do
    find_tenant(t)
    has_work = has_work or t.tenant ~= nil
  end
  bind_shares()
  for _, t in ipairs(tiers) do t.is_gathering = gathers(t) end
  if tier_count > 1 then
    read_passes()
    place_absent()
  end
  if alone_ms == 0 then take_alone() end
  while taken < most and not is_parked do
    local t = next_tier()
    if not t then break end
    serve(t)
  end
  if alone_ms > 0 and not is_parked then look_for_alone() end
  if tier_count > 1 then write_passes() end
  return has_work
end

-- Whose lease ends next rings for what a cap held back from this claim.
local function tell_of_capped()
  local key = P .. 'capped:' .. model
  for _, t in ipairs(tiers) do
    for _, length in ipairs(t.held) do
      local queue = queue_of(t, length)
      if not includes(t.paused, length) and call('ZCARD', P .. 'a:' .. queue) > 0 then
        call('SADD', key, queue)
        call('PEXPIRE', key, POLLS_MS)
      end
    end
  end
end

for _, queue in ipairs(plain) do take_plain(queue) end
for _, t in ipairs(tiers) do narrow(t) end
if tier_count > 0 then forget_sets() end
local has_work = tier_count > 0 and most > 0 and take_jobs()
write_deferred()
move_taken(now)
if taken > 0 then
  look_for_watchers()
  note_judged(tiers, now)
end
if tier_count > 0 and most > 0 then tell_others(taken, is_parked) end
if cap_count > 0 and most > 0 then tell_of_capped() end
if most > 0 and taken == 0 and not has_work then
  -- Nothing is there to ring for.
  for _, queue in ipairs(plain) do call('DEL', P .. 'bell:' .. queue) end
  for _, t in ipairs(tiers) do
    for _, length in ipairs(t.lengths) do call('DEL', P .. 'bell:' .. queue_of(t, length)) end
  end
end
out[2] = again_ms or ''
return out
