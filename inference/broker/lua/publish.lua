-- number of queues, {queue, model, tier, length}..., {which queue, id, tenant, prompt tokens, expected tokens,
-- estimate, arrival or '', mailbox, streamed, tenant's weight, bytes, must run alone, whether its start counts}...
-- ->  1 for each that is new, 0 for each that was held
local at, now, queues, rings, returned, replies = 3, int(now_ms()), {}, {}, {}, {}
for i = 1, tonumber(ARGV[2]) do
  queues[i] = ARGV[at]
  register(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  at = at + 4
end

-- Its end puts right what it was let in with.
local function meter(id, reserved)
  call('HSET', P .. 'e:' .. id, 'l', int(reserved.at))
  if reserved.owner ~= '' then call('HSET', P .. 'e:' .. id, 'i', reserved.owner) end
end

-- One for which room is reserved came when that, or its spilling, was asked for, by this clock; its row has that of
-- another machine. A retry is of long ago.
local function arrival_of(given, reserved, counts)
  if given == '' then return now end
  return reserved and counts ~= '0' and int(reserved.at) or given
end

local function publish(queue, id, tenant, prompt, expected, estimate, arrival, mailbox, streamed, weight, bytes, alone,
    counts)
  local reserved = end_reservation(id, true)
  if call('EXISTS', P .. 'e:' .. id) == 1 then return 0 end
  set_weight(tenant, weight)
  local entry = { queue = queue, tenant = tenant, prompt = prompt, expected = expected, estimate = estimate,
    bytes = bytes, arrival = arrival_of(arrival, reserved, counts), alone = alone == '1' and alone or nil }
  call('HSET', P .. 'e:' .. id, 'q', queue, 't', tenant, 'p', prompt, 'x', expected, 'e', estimate, 'a', entry.arrival)
  if bytes ~= '0' then call('HSET', P .. 'e:' .. id, 'r', bytes) end
  if reserved and reserved.metered == 1 then meter(id, reserved) end
  if mailbox ~= '' then call('HSET', P .. 'e:' .. id, 'm', mailbox) end
  if streamed == '1' then call('HSET', P .. 'e:' .. id, 's', '1') end
  if entry.alone then call('HSET', P .. 'e:' .. id, 'y', '1') end
  if counts == '0' then call('HSET', P .. 'e:' .. id, 'j', '-') end
  if arrival ~= '' and not returned[queue] and not entry.alone then
    note_return(queue)
    returned[queue] = true
  end
  enqueue(id, entry)
  rings[queue] = (rings[queue] or 0) + 1
  return 1
end

for i = at, #ARGV, 13 do
  replies[#replies + 1] = publish(queues[tonumber(ARGV[i])], unpack(ARGV, i + 1, i + 12))
end
for queue, times in pairs(rings) do
  ring(queue, times)
  local group = place(queue)
  call('HSET', P .. 'came:' .. group.model, group.tier, now)
end
return replies
