-- What is known of a job.

local function entry_of(v)
  if not v[1] then return nil end
  return { queue = v[1], tenant = v[2] or '', prompt = v[3] or '0', expected = v[4] or '0', estimate = v[5] or '0',
    arrival = v[6], mailbox = v[7] or '', streamed = v[8] or '0', unfit = v[9],
    bytes = v[10] or '0', judged = v[11], claim = v[12], cancelled = v[13], delayed = v[14], capped = v[15],
    owner = v[16], admitted = v[17], alone = v[18] }
end

-- An entry's fields by name; nil if there is no such entry.
local function read(id)
  return entry_of(call('HMGET', P .. 'e:' .. id, 'q', 't', 'p', 'x', 'e', 'a', 'm', 's', 'u', 'r', 'j', 'c', 'z', 'd', 'k',
    'i', 'l', 'y'))
end

-- The entry if `claim` holds it, else nil: the fence of every verb with a token.
local function mine(id, claim)
  local entry = read(id)
  return entry and entry.claim == claim and entry or nil
end

-- The fields of one that is in an order: it has no others. A claim reads many, and so small a table is made sooner.
local function read_first(id)
  local v = call('HMGET', P .. 'e:' .. id, 'q', 't', 'p', 'x', 'e', 'a', 'm', 's', 'u', 'r', 'j')
  if not v[1] then return nil end
  return { queue = v[1], tenant = v[2] or '', prompt = v[3] or '0', expected = v[4] or '0', estimate = v[5] or '0',
    arrival = v[6], mailbox = v[7] or '', streamed = v[8] or '0', unfit = v[9], bytes = v[10] or '0', judged = v[11] }
end

local function tokens_of(entry) return entry.prompt + entry.expected end

local function work_of(entry) return math.floor(entry.estimate * 1000 + 0.5) end

local function count_one(hash, queue, more)
  if more ~= 0 and call('HINCRBY', P .. hash, queue, int(more)) == 0 then call('HDEL', P .. hash, queue) end
end

-- What waits in a queue, or is reserved there: in the same script as the job moves.
local function count(queue, tokens, bytes, work)
  count_one('tokens', queue, tokens)
  count_one('bytes', queue, bytes)
  count_one('work', queue, work)
end

local function count_entry(entry, sign)
  count(entry.queue, sign * tokens_of(entry), sign * entry.bytes, sign * work_of(entry))
end

-- A tenant's unfinished jobs: a reserved one by the end of that, the others by whether they are published. Those that run
-- are in one set of all tenants, which a claim adds to at once.
local SPILLED, PUBLISHED = '5e14', '1e15'

local function run_of(tenant, id) return tenant .. '\n' .. id end

local function unreserve_tenant(tenant, id)
  local score = call('ZSCORE', P .. 'jobs:' .. tenant, id)
  if score and tonumber(score) < tonumber(PUBLISHED) then call('ZREM', P .. 'jobs:' .. tenant, id) end
end

-- How many of a tenant's jobs wait, and how many wait or run.
local function tenants_jobs(tenant, now)
  local key = P .. 'jobs:' .. tenant
  call('ZREMRANGEBYSCORE', key, '-inf', int(now))
  local unfinished = call('ZCARD', key)
  return unfinished - call('ZLEXCOUNT', P .. 'running', '[' .. tenant .. '\n', '(' .. tenant .. '\11'), unfinished
end

-- An id whose entry is lost waits no longer: the reconciler publishes it anew.
local function drop_lost(id, queue)
  call('ZREM', P .. 'a:' .. queue, id)
  call('SREM', P .. 'hold:' .. queue, id)
  if call('ZCARD', P .. 'a:' .. queue) + call('ZCARD', P .. 'r:' .. queue) > 0 then return end
  for _, hash in ipairs({ 'tokens', 'bytes', 'work' }) do call('HDEL', P .. hash, queue) end
end
