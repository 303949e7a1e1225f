-- What is known of a job.

local function entry_of(v)
  if not v[1] then return nil end
  return { queue = v[1], tenant = v[2] or '', prompt = v[3] or '0', expected = v[4] or '0', estimate = v[5] or '0',
    arrival = v[6], mailbox = v[7] or '', streamed = v[8] or '0', unfit = v[9],
    claim = v[10], cancelled = v[11], delayed = v[12], capped = v[13],
    alone = v[14] }
end

-- An entry's fields by name; nil if there is no such entry.
local function read(id)
  return entry_of(call('HMGET', P .. 'e:' .. id, 'q', 't', 'p', 'x', 'e', 'a', 'm', 's', 'u', 'c', 'z', 'd', 'k', 'y'))
end

-- The entry if `claim` holds it, else nil: the fence of every verb with a token.
local function mine(id, claim)
  local entry = read(id)
  return entry and entry.claim == claim and entry or nil
end

-- The fields of one that is in an order: it has no others.
local function read_first(id)
  return entry_of(call('HMGET', P .. 'e:' .. id, 'q', 't', 'p', 'x', 'e', 'a', 'm', 's', 'u'))
end

local function tokens_of(entry) return entry.prompt + entry.expected end

local function count_tokens(queue, more)
  if call('HINCRBY', P .. 'tokens', queue, int(more)) == 0 then call('HDEL', P .. 'tokens', queue) end
end

-- An id whose entry is lost waits no longer: the reconciler publishes it anew.
local function drop_lost(id, queue)
  call('ZREM', P .. 'a:' .. queue, id)
  if call('ZCARD', P .. 'a:' .. queue) == 0 then call('HDEL', P .. 'tokens', queue) end
end
