-- Since when the oldest of a queue has waited.

-- When the oldest came that may be claimed, or one that came later: of those that may not, nobody knows how old they are.
local function oldest_of(queue)
  local barred = call('ZCARD', P .. 'd:' .. queue) + call('ZCARD', P .. 'y:' .. queue)
  return tonumber(call('ZRANGE', P .. 'a:' .. queue, barred, barred, 'WITHSCORES')[2])
end
