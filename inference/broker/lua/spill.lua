-- {id, queue, tenant, numbers (tokens, bytes, ms of its estimate, when it was admitted)}...  ->  1 for each spilled job that
-- was not known
local were = {}
for i = 2, #ARGV, 4 do
  local id, known = ARGV[i], call('EXISTS', P .. 'e:' .. ARGV[i], P .. 'v:' .. ARGV[i])
  local tokens, bytes, work, at = struct.unpack('<dddd', ARGV[i + 3])
  if known == 0 then
    spill(id, { tokens = tokens, bytes = bytes, work = work, at = at, metered = 0, of_second = 0,
      of_key = 0, of_tenant = 0, queue = ARGV[i + 1],
      tenant = ARGV[i + 2], owner = '' })
  end
  were[#were + 1] = 1 - math.min(1, known)
end
return were
