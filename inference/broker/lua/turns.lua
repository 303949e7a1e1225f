-- When those may come back whom a full queue refused: places in a virtual line, which moves as the queue does. A
-- request that comes back is known by its ticket: of another, even of the same key, it takes no place.
local GRACE_MS, LONGEST_MS, EARLY_MS = 5000, 120000, 500
local BEARS = 2           -- times the max wait, as measured, with which somebody is let in whose turn has come
local MOST_PLACES = 8     -- of one ticket: it may be as many requests that ask the same, or one that asks all the time

local function turns_key(queue) return P .. 'turns:' .. queue end
local function tickets_turns(queue, ticket) return turns_key(queue) .. ':' .. ticket end
local function tenants_turns(queue, tenant) return turns_key(queue) .. ':of:' .. tenant end

-- The first turn of a ticket that has come and not lapsed; nil if there is none.
local function turn_of(queue, ticket, now)
  local found = call('ZRANGEBYSCORE', tickets_turns(queue, ticket), int(now - GRACE_MS), int(now + EARLY_MS),
    'WITHSCORES', 'LIMIT', '0', '1')
  return found[1] and { member = found[1], due = tonumber(found[2]) } or nil
end

-- Turns of others that come before one's own or until a time, and how many of them are the tenant's: their room is kept.
-- Else who comes first takes it, and where turns come as fast as jobs leave, it is not made up for before the line ends.
local function turns_before(queue, ticket, tenant, turn, last, now)
  local from, to = int(now - GRACE_MS), turn and '(' .. int(turn.due) or int(last)
  local own = call('ZCOUNT', tickets_turns(queue, ticket), from, to)
  return call('ZCOUNT', turns_key(queue), from, to) - own, math.max(0, call('ZCOUNT', tenants_turns(queue, tenant), from, to) - own)
end

local function use_turn(queue, ticket, tenant, turn)
  call('ZREM', turns_key(queue), ticket .. ':' .. turn.member)
  call('ZREM', tenants_turns(queue, tenant), ticket .. ':' .. turn.member)
  call('ZREM', tickets_turns(queue, ticket), turn.member)
end

-- Forget turns that have lapsed.
local function lapse_turns(key, now) call('ZREMRANGEBYSCORE', key, '-inf', '(' .. int(now - GRACE_MS)) end

-- Ms until the last turn of a ticket that has as many as it may; nil if it has fewer.
local function last_place(own, now)
  lapse_turns(own, now)
  if call('ZCARD', own) < MOST_PLACES then return nil end
  return math.max(0, tonumber(call('ZRANGE', own, '-1', '-1', 'WITHSCORES')[2]) - now)
end

local function note_turn(queue, ticket, tenant, due, now)
  local member, own = tostring(call('INCR', P .. 'turn')), tickets_turns(queue, ticket)
  call('ZADD', own, int(due), member)
  call('PEXPIRE', own, LONGEST_MS + GRACE_MS)
  for _, key in ipairs({ turns_key(queue), tenants_turns(queue, tenant) }) do
    call('ZADD', key, int(due), ticket .. ':' .. member)
    lapse_turns(key, now)
    call('PEXPIRE', key, LONGEST_MS + GRACE_MS)
  end
end

-- The next place in the line, for so many jobs: ms until it comes. Beyond LONGEST_MS there is none to have. Who is on
-- hold is beyond the caps: there is room once so many have left.
local function give_turn(queue, ticket, tenant, jobs, drain, now)
  local place = last_place(tickets_turns(queue, ticket), now)
  if place then return place end
  local last = tonumber(call('GET', P .. 'next:' .. queue) or 0)
  if last > now + LONGEST_MS then last = now end    -- the clock was set back
  local due = math.max(now + call('SCARD', P .. 'hold:' .. queue) / drain, last) + jobs / drain
  if not (due <= now + LONGEST_MS) then return LONGEST_MS end
  call('SET', P .. 'next:' .. queue, int(due), 'PX', LONGEST_MS)
  note_turn(queue, ticket, tenant, due, now)
  return math.ceil(due - now)
end
