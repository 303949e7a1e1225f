-- queue, numbers (ms that a reservation holds; most jobs that may wait in it, then tokens and bytes, and bytes in all queues
-- of the model, each below 0 where there is no bound), number of queues of the model, these..., ids of spilled jobs...
-- ->  those that have room now, which is reserved: in their order, up to the first that has none. One that is too large for
-- these bounds by itself is passed over.
local now, queue, all, taken = now_ms(), ARGV[2], {}, {}
local hold_ms, most_jobs, most_tokens, most_bytes, most_all = struct.unpack('<ddddd', ARGV[3])
for i = 1, tonumber(ARGV[4]) do all[i] = ARGV[4 + i] end
lapse(queue, now)

local function sum_of(hash, names)
  local sum = 0
  for _, value in ipairs(call('HMGET', P .. hash, unpack(names))) do sum = sum + tonumber(value or 0) end
  return sum
end

local jobs = call('ZCARD', P .. 'a:' .. queue) + call('ZCARD', P .. 'r:' .. queue)
local tokens, bytes, all_bytes = sum_of('tokens', { queue }), sum_of('bytes', { queue }), sum_of('bytes', all)

local function is_over(limit, size) return limit >= 0 and size > limit end

local function exceeds(of, more_tokens, more_bytes, more_all)
  return is_over(most_tokens, of.tokens + more_tokens) or is_over(most_bytes, of.bytes + more_bytes)
    or is_over(most_all, of.bytes + more_all)
end

local function take(id, of)
  call('ZREM', P .. 'spilled:' .. queue, id)
  call('ZADD', P .. 'r:' .. queue, int(now + hold_ms), id)
  count(queue, of.tokens, of.bytes, of.work)
  jobs, tokens, bytes, all_bytes = jobs + 1, tokens + of.tokens, bytes + of.bytes, all_bytes + of.bytes
  taken[#taken + 1] = id
end

for i = 5 + #all, #ARGV do
  local id = ARGV[i]
  local of = call('ZSCORE', P .. 'spilled:' .. queue, id) and read_reserved(id)
  if of and not exceeds(of, 0, 0, 0) then
    if jobs >= most_jobs or exceeds(of, tokens, bytes, all_bytes) then break end
    take(id, of)
  end
end
if #taken > 0 then call('SADD', P .. 'admitting', queue) end
return taken
