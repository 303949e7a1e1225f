-- What a claim takes moves from waiting to leased: all of a queue at once, since a command costs more than one member
-- more.

local moved = {}    -- by queue: what is taken of it, not yet moved from waiting to leased
local runs = {}     -- the same of all queues, as ZADD has it

local function note_moved(id, entry, until_ms)
  local move = moved[entry.queue]
  if not move then
    move = { ids = {}, ends = {}, is_plain = entry.tenant == '', tokens = 0, bytes = 0, work = 0 }
    moved[entry.queue] = move
  end
  local n = #move.ids
  move.ids[n + 1], move.ends[2 * n + 1], move.ends[2 * n + 2] = id, until_ms, id
  if move.is_plain then return end
  move.tokens, move.bytes = move.tokens + tokens_of(entry), move.bytes + entry.bytes
  move.work = move.work + work_of(entry)
  runs[#runs + 1], runs[#runs + 2] = '0', run_of(entry.tenant, id)
end

local function move_taken(now)
  for queue, move in pairs(moved) do
    call('ZREM', P .. 'a:' .. queue, unpack(move.ids))
    call('ZADD', P .. 'l:' .. queue, unpack(move.ends))
    if not move.is_plain then
      call('SREM', P .. 'hold:' .. queue, unpack(move.ids))
      count(queue, -move.tokens, -move.bytes, -move.work)
      note_drained(queue, #move.ids, now)
    end
  end
  if #runs > 0 then call('ZADD', P .. 'running', unpack(runs)) end
  moved, runs = {}, {}
end
