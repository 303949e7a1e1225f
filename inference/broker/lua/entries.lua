-- cursor, count  ->  {next cursor, ids}. A cursor is: waiting or leased, the set's own cursor, the queue.
local names = call('HKEYS', P .. 'queues')
table.sort(names)
local part, inner, queue = string.match(ARGV[2], '^([al])(%d+):(.*)$')
if not part then part, inner, queue = 'a', '0', names[1] end
if not queue then return { '0', {} } end

local found, ids = call('ZSCAN', P .. part .. ':' .. queue, inner, 'COUNT', ARGV[3]), {}
for i = 1, #found[2], 2 do ids[#ids + 1] = found[2][i] end
if found[1] ~= '0' then return { part .. found[1] .. ':' .. queue, ids } end
if part == 'a' then return { 'l0:' .. queue, ids } end
for _, name in ipairs(names) do
  if queue < name then return { 'a0:' .. name, ids } end
end
return { '0', ids }
