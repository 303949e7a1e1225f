-- id, status, ms after which it should have started, or below 0  ->  where it was
local id, status = ARGV[2], ARGV[3]
local entry = read(id)

-- What is in no queue yet; its tokens are given back as those of one that waits.
local function cancel_spilled(of)
  end_reservation(id)
  drop_cost(id)
  if of.metered == 1 then
    settle_tokens({ admitted = of.at, owner = of.owner ~= '' and of.owner or nil, tenant = of.tenant, prompt = of.tokens,
      expected = 0 }, '0')
  end
  announce(id, nil, status, nil, '', true)
  return 'spilled'
end

if not entry then
  local of = read_reserved(id)
  return of and of.spilled == 1 and cancel_spilled(of) or 'absent'
end
local where = entry.claim and 'leased' or 'queued'
if entry.claim then
  call('HSET', P .. 'e:' .. id, 'z', '1')
else
  forget_waiting(id, entry)
  note_gone(entry, tonumber(ARGV[4]), now_ms())
  settle_tokens(entry, '0')
end
if not entry.cancelled then announce(id, entry, status, entry.claim, '', true) end
return where
