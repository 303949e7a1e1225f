-- id, claim, whether to tell of it, first wait ms (0: none), longest wait ms, share of it to wait, whether it must
-- run alone from now on  ->  1 if it was ours
local id, claim = ARGV[2], ARGV[3]
local entry = mine(id, claim)
if not entry then return 0 end
if entry.cancelled then
  forget_leased(id, entry)
  return 1
end
local has_sent = call('HGET', P .. 'e:' .. id, 'o')
end_lease(id, entry)    -- first: with the memory full, only then it may write
correct(entry, charged_by(id), -tonumber(entry.estimate))
call('HDEL', P .. 'e:' .. id, 'c', 'w', 'o', 'n', 'g', 'k')
if ARGV[8] == '1' then
  call('HSET', P .. 'e:' .. id, 'y', '1')
  entry.alone = '1'
end
local first_ms, from_ms = tonumber(ARGV[5]), nil
if first_ms > 0 then
  local doublings = math.min(call('HINCRBY', P .. 'e:' .. id, 'f', 1) - 1, 30)
  from_ms = now_ms() + math.floor(math.min(first_ms * 2 ^ doublings, tonumber(ARGV[6])) * tonumber(ARGV[7]))
end
if not from_ms and not entry.alone then note_return(entry.queue) end
enqueue(id, entry, from_ms)
ring(entry.queue, 1)
if has_sent and ARGV[4] == '1' then announce(id, entry, 'interrupted', claim, '', false) end
return 1
