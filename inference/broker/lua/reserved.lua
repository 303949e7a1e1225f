-- Room for jobs that are about to be published; as inference/admission/ledger.py.

-- What is reserved for a job, packed; `metered` is 1 where a limit counts its tokens, by the key `owner` too if there is one.
local function pack_reserved(of)
  return struct.pack('<ddddd', of.tokens, of.bytes, of.work, of.at, of.metered) ..
    of.queue .. '\n' .. of.tenant .. '\n' .. of.owner
end

local function read_reserved(id)
  local kept = call('GET', P .. 'v:' .. id)
  if not kept then return nil end
  local tokens, bytes, work, at, metered = struct.unpack('<ddddd', kept)
  local queue, tenant, owner = string.match(string.sub(kept, 41), '^(.-)\n(.-)\n(.*)$')
  return { tokens = tokens, bytes = bytes, work = work, at = at, metered = metered,
    queue = queue, tenant = tenant, owner = owner }
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

-- Reservations of a queue whose jobs were not published in time.
local function lapse(queue, now)
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'r:' .. queue, '-inf', int(now))) do
    if not end_reservation(id) then call('ZREM', P .. 'r:' .. queue, id) end
    drop_cost(id)
  end
end
