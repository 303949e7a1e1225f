-- id, claim, target wait ms or below 0  ->  1 if it was ours. A parked job begins: only now it is known when.
local entry, now = mine(ARGV[2], ARGV[3]), now_ms()
if not entry then return 0 end
if not entry.judged then
  local is_good = is_in_time(tonumber(entry.arrival), tonumber(ARGV[4]), now)
  call('HSET', P .. 'e:' .. ARGV[2], 'j', is_good and '1' or '0')
  note_starts(entry.queue, is_good and 1 or 0, is_good and 0 or 1, now)
end
return 1
