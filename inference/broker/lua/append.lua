-- id, claim, kind, calls before this one or '', chunks...  ->  1 if it was ours and may still speak; 2 if what those
-- calls said is not here any more, or the whole lease. Counted, a call that is repeated is heard once.
local id, claim, said = ARGV[2], ARGV[3], tonumber(ARGV[5])
local entry = read(id)
if said and not entry then return 2 end
if not entry or entry.claim ~= claim or entry.cancelled then return 0 end
local names, streamed = audience(id, entry)
if not streamed and #names == 0 then return 1 end
if said then
  local heard = tonumber(call('HGET', P .. 'e:' .. id, 'n') or 0)
  if heard ~= said then return heard > said and 1 or 2 end
  call('HSET', P .. 'e:' .. id, 'n', int(said + 1))
end
for i = 6, math.max(6, #ARGV) do tell(id, names, streamed, ARGV[4], claim, ARGV[i] or '') end
settle(id, names, streamed, false)
call('HSET', P .. 'e:' .. id, 'o', '1')
return 1
