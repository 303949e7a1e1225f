-- tenant, cursor, count  ->  {next cursor, how many were taken off}: unfinished jobs of a tenant that are nowhere.
local key, found, gone = P .. 'jobs:' .. ARGV[2], nil, 0
found = call('ZSCAN', key, ARGV[3], 'COUNT', ARGV[4])
for i = 1, #found[2], 2 do
  local id = found[2][i]
  if call('EXISTS', P .. 'e:' .. id, P .. 'v:' .. id) == 0 then
    gone = gone + call('ZREM', key, id)
    call('ZREM', P .. 'running', ARGV[2] .. '\n' .. id)
  end
end
return { found[1], gone }
