-- id, claim, whether to tell of it  ->  1 if it was ours
local id, claim = ARGV[2], ARGV[3]
local entry = mine(id, claim)
if not entry then return 0 end
if entry.cancelled then
  forget(id, entry)
  return 1
end
local has_sent = call('HGET', P .. 'e:' .. id, 'o')
call('ZREM', P .. 'l:' .. entry.queue, id)
call('HDEL', P .. 'e:' .. id, 'c', 'w', 'o', 'n')
enqueue(id, entry)
ring(entry.queue, 1)
if has_sent and ARGV[4] == '1' then announce(id, entry, 'interrupted', claim, '', false) end
return 1
