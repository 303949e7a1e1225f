-- id, queue, its model, tier, length, cap on waiting jobs  ->  'moved', or where it is, or 'full'
-- The entry keeps its arrival, and so its place by age; what it was kept from its order for holds on.
local id, queue, cap, now = ARGV[2], ARGV[3], tonumber(ARGV[7]), int(now_ms())
local entry = read(id)
if not entry then return 'absent' end
if entry.claim then return 'leased' end
if call('ZCARD', P .. 'a:' .. queue) + call('ZCARD', P .. 'r:' .. queue) >= cap then return 'full' end
local from_ms = entry.delayed and call('ZSCORE', P .. 'd:' .. entry.queue, id)
local left = place(entry.queue)
register(queue, ARGV[4], ARGV[5], ARGV[6])
dequeue(id, entry)
if left then refresh(left, entry.tenant) end
call('HDEL', P .. 'e:' .. id, 'd', 'u')
call('HSET', P .. 'e:' .. id, 'q', queue)
entry.queue, entry.delayed = queue, nil
if not from_ms and not entry.alone then note_return(queue) end
enqueue(id, entry, from_ms)
ring(queue, 1)
local group = place(queue)
call('HSET', P .. 'came:' .. group.model, group.tier, now)
return 'moved'
