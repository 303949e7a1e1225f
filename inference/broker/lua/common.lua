-- Before every script: the keys, and what several verbs do. ARGV[1] is the prefix of all keys.
--
--   queues          hash  job queue -> model, tier, length (one a line)    plain  set  other queues
--   e:ID            hash  an entry: q queue, t tenant, p prompt tokens, x expected tokens, e estimate, a arrival,
--                         m mailbox, s streamed, b body; if leased c claim, w worker, o has sent output,
--                         n calls that said something, where counted, z cancelled; f returns after a failure,
--                         d is kept from its order (see d:QUEUE)
--   a:QUEUE         zset  waiting id -> arrival ms               l:QUEUE  zset  leased id -> end of the lease ms
--   r:QUEUE         zset  reserved id -> end of the reservation  tokens   hash  queue -> prompt + expected waiting
--   d:QUEUE         zset  waiting id that may not be claimed yet -> from when on, ms; in a: too, and in no order
--   o:GROUP:LENGTH:TENANT  zset  waiting id -> arrival + sjf_weight * estimate       GROUP is MODEL:TIER
--   busy:GROUP      hash  tenant -> its waiting jobs             weights  hash  tenant -> weight, where not 1
--   tiers:MODEL     hash  tier -> pass, tier+ -> came back and has no place yet, '' -> the pass last served
--   pass:GROUP      hash  tenant -> pass, '' -> the pass last served
--   sets:MODEL      hash  TIER:SET -> last claim, ms. A SET is the lengths that some workers serve together, and has
--   i:GROUP:SET     zset  tenant -> pass + estimate at its head / weight       f:GROUP:SET  zset  tenant -> pass
--   bell:QUEUE      list  wakes waiting workers                  lock:NAME  string  a periodic task's lease
--   s:ID            stream  a job's events                       w:ID  set  mailboxes that watch a job
--   output:OWNER:MODEL:LENGTH, speed:MODEL  string  what finished calls taught (rates.py); kept for a week
--   mail:NAME       stream  events for one process               looks  hash  for leases that ran out: last, ms, and
--                                                                       since when there was no gap between looks

local call, P = redis.call, ARGV[1]

local SJF_MS = 1000               -- sjf_weight 1: a second of estimate orders like a second of arrival
local BELLS = 16                  -- more waiting workers than this are woken by their poll
local STREAM_LENGTH, MAILBOX_LENGTH = '20000', '50000'
local STREAM_MS, STREAM_ENDED_MS, MAILBOX_MS = '7200000', '600000', '60000'

-- Redis wants integers without exponent, which Lua's own conversion does not promise.
local function int(number) return string.format('%.0f', number) end

local function now_ms()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Order of bytes, as sorted sets have it; Lua's own < follows the server's locale.
local function before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = one:byte(i), other:byte(i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local known = {}

local function register(queue, model, tier, length)
  if call('HSETNX', P .. 'queues', queue, model .. '\n' .. tier .. '\n' .. length) == 1 then known[queue] = nil end
end

-- Where a job queue belongs; false for a plain queue.
local function place(queue)
  if known[queue] == nil then
    local model, tier, length = string.match(call('HGET', P .. 'queues', queue) or '', '^(.-)\n(.-)\n(.*)$')
    known[queue] = model and { model = model, tier = tier, length = length, group = model .. ':' .. tier } or false
  end
  return known[queue]
end

local weights_read = {}

local function weight_of(tenant)
  weights_read[tenant] = weights_read[tenant] or tonumber(call('HGET', P .. 'weights', tenant) or 1)
  return weights_read[tenant]
end

local passes_read = {}

local function pass_of(group, tenant)
  local field = group .. ':' .. tenant
  passes_read[field] = passes_read[field] or tonumber(call('HGET', P .. 'pass:' .. group, tenant) or 0)
  return passes_read[field]
end

local function set_pass(group, tenant, pass, ...)
  call('HSET', P .. 'pass:' .. group, tenant, pass, ...)
  passes_read[group .. ':' .. tenant] = pass
end

local set_fields, sets_read = {}, {}    -- a model's TIER:SET fields; {set -> its lengths} by group

local function split(set)
  local lengths = {}
  for length in string.gmatch(set, '[^,]+') do lengths[#lengths + 1] = length end
  return lengths
end

local function parse_sets(q)
  local sets, from = {}, q.tier .. ':'
  set_fields[q.model] = set_fields[q.model] or call('HKEYS', P .. 'sets:' .. q.model)
  for _, field in ipairs(set_fields[q.model]) do
    if string.sub(field, 1, #from) == from then
      local set = string.sub(field, #from + 1)
      sets[set] = split(set)
    end
  end
  return sets
end

-- {set -> its lengths} of a tier.
local function sets_of(q)
  sets_read[q.group] = sets_read[q.group] or parse_sets(q)
  return sets_read[q.group]
end

local function order_key(group, length, tenant) return P .. 'o:' .. group .. ':' .. length .. ':' .. tenant end

local firsts_read = {}    -- {id, order} by order_key; dropped by who changes that set

-- The tenant's job with the smallest order among `lengths`; nil if it has none there.
local function head(group, tenant, lengths)
  local best, order
  for _, length in ipairs(lengths) do
    local key = order_key(group, length, tenant)
    local first = firsts_read[key] or call('ZRANGE', key, 0, 0, 'WITHSCORES')
    firsts_read[key] = first
    local score = tonumber(first[2])
    if score and (not best or score < order or (score == order and before(first[1], best))) then
      best, order = first[1], score
    end
  end
  return best
end

-- Put a tenant at its place in the indexes of one set of lengths.
local function rank(group, set, lengths, tenant)
  local id, pass = head(group, tenant, lengths), pass_of(group, tenant)
  local index, floor = P .. 'i:' .. group .. ':' .. set, P .. 'f:' .. group .. ':' .. set
  if id then
    call('ZADD', index, pass + tonumber(call('HGET', P .. 'e:' .. id, 'e')) / weight_of(tenant), tenant)
    call('ZADD', floor, pass, tenant)
  else
    call('ZREM', index, tenant)
    call('ZREM', floor, tenant)
  end
end

-- After any change of a tenant's first jobs, pass or weight.
local function refresh(q, tenant)
  for set, lengths in pairs(sets_of(q)) do rank(q.group, set, lengths, tenant) end
end

local function includes(list, wanted)
  for _, item in ipairs(list) do
    if item == wanted then return true end
  end
  return false
end

-- A tenant that was idle comes back: at the smallest pass of those it will compete with, or its own if larger.
local function enter(q, tenant)
  local floor
  for set, lengths in pairs(sets_of(q)) do
    if includes(lengths, q.length) then
      local least = tonumber(call('ZRANGE', P .. 'f:' .. q.group .. ':' .. set, 0, 0, 'WITHSCORES')[2])
      if least and (not floor or least < floor) then floor = least end
    end
  end
  floor = floor or pass_of(q.group, '')
  if floor > pass_of(q.group, tenant) then set_pass(q.group, tenant, floor) end
end

local function ring(queue, times)
  local bells = {}
  for i = 1, math.min(times, BELLS) do bells[i] = '1' end
  call('LPUSH', P .. 'bell:' .. queue, unpack(bells))
  call('LTRIM', P .. 'bell:' .. queue, 0, BELLS - 1)
end

-- An entry's fields by name; nil if there is no such entry.
local function read(id)
  local v = call('HMGET', P .. 'e:' .. id, 'q', 't', 'p', 'x', 'e', 'a', 'm', 's', 'c', 'z', 'd')
  if not v[1] then return nil end
  return { queue = v[1], tenant = v[2] or '', prompt = v[3] or '0', expected = v[4] or '0', estimate = v[5] or '0',
    arrival = v[6], mailbox = v[7] or '', streamed = v[8] or '0', claim = v[9], cancelled = v[10], delayed = v[11] }
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
  local own_order = order_key(q.group, q.length, entry.tenant)
  firsts_read[own_order] = nil
  call('ZADD', own_order, tonumber(entry.arrival) + SJF_MS * tonumber(entry.estimate), id)
  if call('HINCRBY', P .. 'busy:' .. q.group, entry.tenant, 1) == 1 then
    if call('HLEN', P .. 'busy:' .. q.group) == 1 then call('HSET', P .. 'tiers:' .. q.model, q.tier .. '+', '1') end
    enter(q, entry.tenant)
    refresh(q, entry.tenant)
  elseif call('ZRANK', own_order, id) == 0 then
    refresh(q, entry.tenant)
  end
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
  local own_order = order_key(q.group, q.length, entry.tenant)
  firsts_read[own_order] = nil
  call('ZREM', own_order, id)
  if call('HINCRBY', P .. 'busy:' .. q.group, entry.tenant, -1) == 0 then
    call('HDEL', P .. 'busy:' .. q.group, entry.tenant)
  end
end

local function lease(id, queue, claim, worker, until_ms)
  call('HSET', P .. 'e:' .. id, 'c', claim, 'w', worker)
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

-- Who hears of a job: its entry's mailbox and those that watch it. Second value: whether it has a stream of its own.
local function audience(id, entry)
  local names, streamed = call('SMEMBERS', P .. 'w:' .. id), entry and entry.streamed == '1'
  streamed = streamed or #names > 0 or call('EXISTS', P .. 's:' .. id) == 1
  if entry and entry.mailbox ~= '' and not includes(names, entry.mailbox) then names[#names + 1] = entry.mailbox end
  return names, streamed
end

-- One event, to everyone in the same script; the ids in mailboxes are those of the job's stream.
local function tell(id, names, streamed, kind, claim, data)
  local event = { 'k', kind }
  if claim and claim ~= '' then event[3], event[4] = 'c', claim end
  if data and data ~= '' then event[#event + 1], event[#event + 2] = 'd', data end
  local event_id
  if streamed then
    event_id = call('XADD', P .. 's:' .. id, 'MAXLEN', '~', STREAM_LENGTH, '*', unpack(event))
  else
    event_id = int(now_ms()) .. '-0'
  end
  for _, name in ipairs(names) do
    call('XADD', P .. 'mail:' .. name, 'MAXLEN', '~', MAILBOX_LENGTH, '*', 'j', id, 'i', event_id, unpack(event))
  end
end

-- Expiry of what `tell` wrote; after the terminal event nobody watches any more.
local function settle(id, names, streamed, is_terminal)
  if streamed then call('PEXPIRE', P .. 's:' .. id, is_terminal and STREAM_ENDED_MS or STREAM_MS) end
  for _, name in ipairs(names) do call('PEXPIRE', P .. 'mail:' .. name, MAILBOX_MS) end
  if is_terminal then call('DEL', P .. 'w:' .. id) end
end

local function announce(id, entry, kind, claim, data, is_terminal)
  local names, streamed = audience(id, entry)
  if streamed or #names > 0 then tell(id, names, streamed, kind, claim, data) end
  settle(id, names, streamed, is_terminal)
end
