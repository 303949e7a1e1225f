-- lease ms, {id, claim}...  ->  for each: 0 renewed, 1 not ours, 2 renewed but cancelled
local until_ms, states = now_ms() + tonumber(ARGV[2]), {}
for i = 3, #ARGV, 2 do
  local entry, state = mine(ARGV[i], ARGV[i + 1]), 1
  if entry then
    call('ZADD', P .. 'l:' .. entry.queue, until_ms, ARGV[i])
    state = entry.cancelled and 2 or 0
  end
  states[#states + 1] = state
end
return states
