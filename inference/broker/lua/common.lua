-- Before every script: the keys, and what several verbs do. ARGV[1] is the prefix of all keys. Packed: as doubles.
--
--   queues          hash  job queue -> model, tier, length (one a line)    plain  set  other queues
--   e:ID            hash  an entry: q queue, t tenant, p prompt tokens, x expected tokens, e estimate, a arrival,
--                         m mailbox, s streamed, b body; if leased c claim, w worker, o has sent output,
--                         n calls that said something, where counted, z cancelled; r bytes of the request;
--                         where a limit counts its tokens: l when it was admitted, i its key's owner if the key
--                         has one; f returns after a failure, d is kept from its order (see d:QUEUE); u since when it
--                         fits no asking worker, ms;
--                         if leased g the weights that its claim charged by: tenant's, tier's or 0, packed;
--                         k whether a cap counts it; j once it began, whether in time, or - if its start does not
--                         count (objectives.lua); y must run alone (see y:QUEUE)
--   a:QUEUE         zset  waiting id -> arrival ms               l:QUEUE  zset  leased id -> end of the lease ms
--   spilled:QUEUE   zset  id that is kept out of its full queue -> when it was admitted, ms; v:ID says what it is
--   hold:QUEUE      set   waiting or reserved ids that a full queue took on hold
--   admitting       set  queues that had reservations
--   r:QUEUE         zset  reserved id -> end of the reservation  v:ID  string  what is reserved, packed (reserved.lua)
--   tokens, bytes, work  hash  queue -> what waits or is reserved: prompt + expected, bytes of requests, ms of estimates
--   jobs:TENANT     zset  unfinished id -> end of the reservation ms, or spilled, or published (entry.lua)
--   running         zset  TENANT, line feed, leased id -> 0
--   rate:OWNER, rate:tenant=TENANT  string  requests and tokens of the last minute; burst:OWNER  of the last second;
--   starts:QUEUE    string  which jobs began in time, in the last day: buckets, packed (objectives.lua)
--   drained:QUEUE   string  jobs claimed lately: buckets, packed (windows.lua); each expires with what it counts
--   back:QUEUE      string  since when the oldest waits that did not come back to it, ms; half a minute after one did
--   spent:PAYER:MONTH  hash  what ended jobs cost (spending.lua): s by the database, n acknowledged since the last read of it
--                         began, o before that read and not in its answer yet, g reads begun
--   costs:PAYER     hash  unfinished id -> expected cost, '' -> their sum           p:ID  string  its payers, one a line
--   turns:QUEUE, turns:QUEUE:of:TENANT  zset  TICKET:TURN -> when it may come back, ms; turns:QUEUE:TICKET  zset  TURN ->
--                         the same
--   next:QUEUE      string  the last of these, ms                turn  string  how many there were
--   d:QUEUE         zset  waiting id that may not be claimed yet -> from when on, ms; in a: too, and in no order
--   y:QUEUE         zset  waiting id that must run alone -> arrival ms; in a: too, and in no order
--   alone:MODEL     set   queues with such ids                   runs_alone  hash  model -> the last such id leased
--   o:GROUP:LENGTH:TENANT  zset  waiting id -> arrival + sjf_weight * estimate       GROUP is MODEL:TIER
--   busy:GROUP      hash  tenant -> its waiting jobs             weights  hash  tenant -> weight, where not 1
--   tiers:MODEL     hash  tier -> packed: pass, the largest pass at which another was served in its place, the last
--                         claim in which it took part in a choice between tiers, ms
--   pass:GROUP      hash  tenant -> pass, '' -> the pass last served       floor:GROUP  hash  tenant -> the mark at
--                                                                          which it came back: no correction goes below
--   marks:MODEL     hash  TIER:LENGTH -> the largest pass at which a tenant was chosen while a guard held that length back
--   came:MODEL      hash  tier -> its last publish, ms
--   gathered:MODEL  hash  tier -> the newest arrival among what waited when its gather window ended last, ms
--   workers:MODEL   hash  worker -> its last claim, packed: ms, in flight, slots, room left, its last claim that took
--                         something, whether it left all to others; then TIER:LENGTH... it serves
--   sets:MODEL      hash  TIER:SET -> last claim, ms. A SET is the lengths that some workers serve together, and has
--   i:GROUP:SET     zset  tenant -> pass + estimate at its head / weight       f:GROUP:SET  zset  tenant -> pass
--   capped:MODEL    set  queues with work that a claim left since a cap was reached; for two polls
--   bell:QUEUE      list  wakes waiting workers                  lock:NAME  string  a periodic task's lease
--   s:ID            stream  a job's events                       w:ID  set  mailboxes that watch a job
--   output:OWNER:MODEL:LENGTH, speed:MODEL  string  what finished calls taught (rates.py); kept for a week
--   missing         hash  id and claim that runs without a lease -> since when, ms
--   mail:NAME       stream  events for one process               looks  hash  for leases that ran out: last, ms, and
--                                                                       since when there was no gap between looks

local call, P = redis.call, ARGV[1]

local BELLS = 16                  -- more waiting workers than this are woken by their poll

-- Redis wants integers without exponent, which Lua's own conversion does not promise.
local function int(number) return string.format('%.0f', number) end

-- Order of bytes, as sorted sets have it; Lua's own < follows the server's locale.
local function before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = one:byte(i), other:byte(i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local groups = {}

-- A tier of a model, and what this call has read of it: its tenants, its sets.
local function group_of(model, tier)
  local name = model .. ':' .. tier
  groups[name] = groups[name]
    or { name = name, model = model, tier = tier, passes = P .. 'pass:' .. name, tenants = {}, sets = nil }
  return groups[name]
end

local known = {}

local function register(queue, model, tier, length)
  if call('HSETNX', P .. 'queues', queue, model .. '\n' .. tier .. '\n' .. length) == 1 then known[queue] = nil end
end

-- Where a job queue belongs: group and length; false for a plain queue.
local function place(queue)
  if known[queue] == nil then
    local model, tier, length = string.match(call('HGET', P .. 'queues', queue) or '', '^(.-)\n(.-)\n(.*)$')
    known[queue] = model and { group = group_of(model, tier), length = length } or false
  end
  if not known[queue] then return false end
  return known[queue].group, known[queue].length
end

local function includes(list, wanted)
  for _, item in ipairs(list) do
    if item == wanted then return true end
  end
  return false
end

local function ring(queue, times)
  local bells = {}
  for i = 1, math.min(times, BELLS) do bells[i] = '1' end
  call('LPUSH', P .. 'bell:' .. queue, unpack(bells))
  call('LTRIM', P .. 'bell:' .. queue, 0, BELLS - 1)
end
