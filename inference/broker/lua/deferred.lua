-- What a claim writes of the order and does not read: at its end, since a command costs more than one member more. Who
-- is there twice has what is said last.
local passes, floors, gone = {}, {}, {}    -- by key, as HSET, ZADD and ZREM have it

local function defer(later, key, first, second)
  local list = later[key]
  if not list then
    list = {}
    later[key] = list
  end
  local n = #list
  list[n + 1], list[n + 2] = first, second
end

function write_pass(group, tenant, pass) defer(passes, group.passes, tenant, pass) end

function write_floor(set, tenant, pass)
  if pass then defer(floors, set.floor, pass, tenant) else defer(gone, set.floor, tenant) end
end

local function write_deferred()
  for key, list in pairs(passes) do call('HSET', key, unpack(list)) end
  for key, list in pairs(floors) do call('ZADD', key, unpack(list)) end
  for key, list in pairs(gone) do call('ZREM', key, unpack(list)) end
  passes, floors, gone = {}, {}, {}
end
