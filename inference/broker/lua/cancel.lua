-- id, status, ms after which it should have started, or below 0  ->  where it was
local id, status = ARGV[2], ARGV[3]
local entry = read(id)
if not entry then return 'absent' end
local where = entry.claim and 'leased' or 'queued'
if entry.claim then
  call('HSET', P .. 'e:' .. id, 'z', '1')
else
  forget_waiting(id, entry)
  note_gone(entry, tonumber(ARGV[4]), now_ms())
  settle_tokens(entry, '0')
end
if not entry.cancelled then announce(id, entry, status, entry.claim, '', true) end
return where
