-- What a claim leaves to less loaded workers; as inference/levelling.py.
local HEARD_MS, FORGET_MS, LEVEL_AGAIN_MS = 1100, 60000, 25
local level             -- {queues, left}: what this claim may take of the queues that others serve too
local left_to_others = 0
local told_before       -- by this worker's last claim
local has_declined = false

local NUMBERS = '<dddddd'
local QUEUES_AT = struct.size(NUMBERS) + 1

local function read_peer(told)
  local heard, in_flight, slots, free, took, declined = struct.unpack(NUMBERS, told)
  return { heard = heard, in_flight = in_flight, slots = slots, free = free, took = took,
    has_declined = declined == 1, queues = string.sub(told, QUEUES_AT) }
end

-- Those that were heard lately, and still had room then. Forgets those that are gone.
local function read_peers()
  local peers, fields = {}, call('HGETALL', P .. 'workers:' .. model)
  for i = 1, #fields, 2 do
    local name, told = fields[i], fields[i + 1]
    local heard, _, _, free = struct.unpack(NUMBERS, told)
    if name == worker then
      told_before = told
    elseif now - heard > FORGET_MS then
      call('HDEL', P .. 'workers:' .. model, name)
    elseif now - heard <= HEARD_MS and free >= 1 then
      peers[#peers + 1] = read_peer(told)
    end
  end
  return peers
end

local function room_at(peer, height, slots)
  return math.max(0, math.min(peer.free, math.floor(height * peer.slots / slots) - peer.in_flight))
end

-- How many of `waiting` are this worker's, if all are filled up to one level of occupancy.
local function own_share(own, peers, waiting)
  local slots = own.slots
  for _, peer in ipairs(peers) do slots = math.max(slots, peer.slots) end
  local low, high = 0, 2 * slots
  while low < high do
    local height = math.floor((low + high) / 2)
    local room = room_at(own, height, slots)
    for _, peer in ipairs(peers) do room = room + room_at(peer, height, slots) end
    if room >= waiting then high = height else low = height + 1 end
  end
  return room_at(own, low, slots)
end

local function is_served(peers, name)
  for _, peer in ipairs(peers) do
    if string.find(peer.queues, name, 1, true) then return true end
  end
  return false
end

-- {queue -> what waits in it} of those that others serve too, what waits in them, and one of them in which something does.
local function shared_queues(peers)
  local shared, waiting, one = {}, 0, nil
  for _, t in ipairs(tiers) do
    for _, length in ipairs(t.open) do
      if is_served(peers, ' ' .. t.tier .. ':' .. length .. ' ') then
        local queue = queue_of(t, length)
        local jobs = call('ZCARD', P .. 'a:' .. queue)
        shared[queue], waiting, one = jobs, waiting + jobs, jobs > 0 and queue or one
      end
    end
  end
  return shared, waiting, one
end

-- How many of those that wait the strictest of the caps in flight lets anybody take.
local function takable(shared, waiting)
  local most = waiting
  for _, cap in ipairs(caps) do
    local covered = 0
    for queue, jobs in pairs(shared) do covered = covered + (cap.queues[queue] and jobs or 0) end
    most = math.min(most, waiting - math.max(0, covered - math.max(0, cap.left)))
  end
  return most
end

-- This worker has its part, and took that a moment ago. Else it may have been woken for a job that nobody else was.
local function declines(last)
  if now - last.took >= LEVEL_AGAIN_MS then return false end
  return last.has_declined or last.took == last.heard
end

local function meet_others()
  local peers = load.slots > 0 and read_peers() or {}
  if #peers == 0 then return end
  local shared, waiting, one = shared_queues(peers)
  if waiting == 0 then return end
  waiting = takable(shared, waiting)
  local mine = own_share({ in_flight = load.in_flight, slots = load.slots, free = sequences }, peers, waiting)
  local last = told_before and read_peer(told_before)
  if mine < 1 and not (last and declines(last)) then mine = 1 end
  level, left_to_others, has_declined = { queues = shared, left = mine }, waiting - mine, mine < 1
  -- Once: this worker may have taken the bell that was one of the others'.
  if has_declined and not last.has_declined then ring(one, 1) end
end

local function tell_others(taken, is_parked)
  if level and level.left < 1 and left_to_others > 0 then ask_again(LEVEL_AGAIN_MS) end
  if load.slots < 1 then return end
  local took = taken > 0 and now or told_before and read_peer(told_before).took or 0
  local told = struct.pack(NUMBERS, now, load.in_flight + taken, load.slots,
    math.max(0, is_parked and 0 or sequences - taken), took, has_declined and 1 or 0)
  call('HSET', P .. 'workers:' .. model, worker, told .. served)
end
