-- ids...  ->  milliseconds since the arrival of each; nil for one that is neither queued nor leased
local now, waits = now_ms(), {}
for i = 2, #ARGV do
  local arrival = tonumber(call('HGET', P .. 'e:' .. ARGV[i], 'a') or nil)
  waits[#waits + 1] = arrival and int(now - arrival) or false
end
return waits
