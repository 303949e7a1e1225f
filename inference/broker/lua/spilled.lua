-- queue, cursor, count, ms  ->  {next cursor, ids of its spilled jobs that have been there for so long}
local found, old, before_ms = call('ZSCAN', P .. 'spilled:' .. ARGV[2], ARGV[3], 'COUNT', ARGV[4]), {}, now_ms() - ARGV[5]
for i = 1, #found[2], 2 do
  if tonumber(found[2][i + 1]) <= before_ms then old[#old + 1] = found[2][i] end
end
return { found[1], old }
