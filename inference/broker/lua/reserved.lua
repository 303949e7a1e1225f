-- Room for jobs that are about to be published.

-- What is reserved for a job, packed; `metered` is 1 where a limit counts its tokens, by the key `owner` too if there is one.
-- `of_second`, `of_key` and `of_tenant` are 1 for the windows that counted it. `spilled` is 1 for a job that is kept out of
-- its queue: it is in spilled:QUEUE, and while it is brought in, in r:QUEUE.
local function pack_reserved(of)
  return struct.pack('<ddddddddd', of.tokens, of.bytes, of.work, of.at, of.metered, of.of_second, of.of_key, of.of_tenant,
    of.spilled) ..
    of.queue .. '\n' .. of.tenant .. '\n' .. of.owner
end

local function read_reserved(id)
  local kept = call('GET', P .. 'v:' .. id)
  if not kept then return nil end
  local tokens, bytes, work, at, metered, of_second, of_key, of_tenant, spilled = struct.unpack('<ddddddddd', kept)
  local queue, tenant, owner = string.match(string.sub(kept, 73), '^(.-)\n(.-)\n(.*)$')
  return { tokens = tokens, bytes = bytes, work = work, at = at, metered = metered, of_second = of_second,
    of_key = of_key, of_tenant = of_tenant, spilled = spilled, queue = queue, tenant = tenant, owner = owner }
end

-- Give the room back; what it was, or nil if there was none. One that is published stays on hold, if it is.
local function end_reservation(id, is_published)
  local of = read_reserved(id)
  if not of then return nil end
  call('DEL', P .. 'v:' .. id)
  if call('ZREM', P .. 'r:' .. of.queue, id) == 1 then count(of.queue, -of.tokens, -of.bytes, -of.work) end
  if of.spilled == 1 then call('ZREM', P .. 'spilled:' .. of.queue, id) end
  if not is_published then call('SREM', P .. 'hold:' .. of.queue, id) end
  unreserve_tenant(of.tenant, id)
  return of
end

-- Keep a job out of its queue, and count it for its tenant until it ends.
local function spill(id, of)
  of.spilled = 1
  call('SET', P .. 'v:' .. id, pack_reserved(of))
  call('ZADD', P .. 'spilled:' .. of.queue, int(of.at), id)
  call('ZADD', P .. 'jobs:' .. of.tenant, SPILLED, id)
end

-- Whoever brought a spilled job in died: it is where it was, and its row says whether it is to be published.
local function end_feeding(id, queue, of)
  call('ZREM', P .. 'r:' .. queue, id)
  count(queue, -of.tokens, -of.bytes, -of.work)
  spill(id, of)
end

local LAPSED_AT_ONCE = '500'    -- a long script holds everyone up; the rest counts until the next look

-- Reservations of a queue whose jobs were not published in time.
local function lapse(queue, now)
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'r:' .. queue, '-inf', int(now), 'LIMIT', '0', LAPSED_AT_ONCE)) do
    local of = read_reserved(id)
    if of and of.spilled == 1 then
      end_feeding(id, queue, of)
    else
      if not end_reservation(id) then call('ZREM', P .. 'r:' .. queue, id) end
      drop_cost(id)
    end
  end
end
