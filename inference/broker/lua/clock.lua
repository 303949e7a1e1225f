-- One clock for all processes: the server's.
local function now_ms()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
