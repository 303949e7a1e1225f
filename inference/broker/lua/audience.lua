-- Who hears of a job, and telling them.

local STREAM_LENGTH, MAILBOX_LENGTH = '20000', '50000'
local STREAM_MS, STREAM_ENDED_MS, MAILBOX_MS = '7200000', '600000', '60000'

-- Who hears of a job: its entry's mailbox and those that watch it. Second value: whether it has a stream of its own.
local function audience(id, entry)
  local names, streamed = call('SMEMBERS', P .. 'w:' .. id), entry and entry.streamed == '1'
  streamed = streamed or #names > 0 or call('EXISTS', P .. 's:' .. id) == 1
  if entry and entry.mailbox ~= '' and not includes(names, entry.mailbox) then names[#names + 1] = entry.mailbox end
  return names, streamed
end

-- One event, to everyone in the same script; the ids in mailboxes are those of the job's stream.
local function tell(id, names, streamed, kind, claim, data)
  local event = { 'k', kind }
  if claim and claim ~= '' then event[3], event[4] = 'c', claim end
  if data and data ~= '' then event[#event + 1], event[#event + 2] = 'd', data end
  local event_id
  if streamed then
    event_id = call('XADD', P .. 's:' .. id, 'MAXLEN', '~', STREAM_LENGTH, '*', unpack(event))
  else
    event_id = int(now_ms()) .. '-0'
  end
  for _, name in ipairs(names) do
    call('XADD', P .. 'mail:' .. name, 'MAXLEN', '~', MAILBOX_LENGTH, '*', 'j', id, 'i', event_id, unpack(event))
  end
end

-- Expiry of what `tell` wrote; after the terminal event nobody watches any more.
local function settle(id, names, streamed, is_terminal)
  if streamed then call('PEXPIRE', P .. 's:' .. id, is_terminal and STREAM_ENDED_MS or STREAM_MS) end
  for _, name in ipairs(names) do call('PEXPIRE', P .. 'mail:' .. name, MAILBOX_MS) end
  if is_terminal then call('DEL', P .. 'w:' .. id) end
end

local function announce(id, entry, kind, claim, data, is_terminal)
  local names, streamed = audience(id, entry)
  if streamed or #names > 0 then tell(id, names, streamed, kind, claim, data) end
  settle(id, names, streamed, is_terminal)
end
