-- Room for jobs that are about to be published.

-- What is reserved for a job, packed; `metered` is 1 where a limit counts its tokens, by the key `owner` too if there is one.
-- `of_second`, `of_key` and `of_tenant` are 1 for the windows that counted it.
local function pack_reserved(of)
  return struct.pack('<dddddddd', of.tokens, of.bytes, of.work, of.at, of.metered, of.of_second, of.of_key, of.of_tenant) ..
    of.queue .. '\n' .. of.tenant .. '\n' .. of.owner
end

local function read_reserved(id)
  local kept = call('GET', P .. 'v:' .. id)
  if not kept then return nil end
  local tokens, bytes, work, at, metered, of_second, of_key, of_tenant = struct.unpack('<dddddddd', kept)
  local queue, tenant, owner = string.match(string.sub(kept, 65), '^(.-)\n(.-)\n(.*)$')
  return { tokens = tokens, bytes = bytes, work = work, at = at, metered = metered, of_second = of_second,
    of_key = of_key, of_tenant = of_tenant, queue = queue, tenant = tenant, owner = owner }
end

-- Give the room back; what it was, or nil if there was none. One that is published stays on hold, if it is.
local function end_reservation(id, is_published)
  local of = read_reserved(id)
  if not of then return nil end
  call('DEL', P .. 'v:' .. id)
  call('ZREM', P .. 'r:' .. of.queue, id)
  if not is_published then call('SREM', P .. 'hold:' .. of.queue, id) end
  count(of.queue, -of.tokens, -of.bytes, -of.work)
  unreserve_tenant(of.tenant, id)
  return of
end

local LAPSED_AT_ONCE = '500'    -- a long script holds everyone up; the rest counts until the next look

-- Reservations of a queue whose jobs were not published in time.
local function lapse(queue, now)
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'r:' .. queue, '-inf', int(now), 'LIMIT', '0', LAPSED_AT_ONCE)) do
    if not end_reservation(id) then call('ZREM', P .. 'r:' .. queue, id) end
    drop_cost(id)
  end
end
