-- ids...  ->  milliseconds since the arrival of each, of one not queued yet, since room was reserved; nil for one unknown
local now, waits = now_ms(), {}
for i = 2, #ARGV do
  local arrival = tonumber(call('HGET', P .. 'e:' .. ARGV[i], 'a') or nil)
  if not arrival then arrival = (read_reserved(ARGV[i]) or {}).at end
  waits[#waits + 1] = arrival and int(now - arrival) or false
end
return waits
