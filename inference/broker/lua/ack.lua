-- {id, claim, status or '', what it used or '', tokens that it used or '', billionths that it cost or '', month}...
-- ->  1 for each that was ours
local function ack(id, claim, status, used, tokens, cost, month)
  local entry = mine(id, claim)
  if not entry then return 0 end
  local charged = used ~= '' and charged_by(id)
  if cost ~= '' then settle_cost(id, cost, month) end
  forget_leased(id, entry)    -- first: with the memory full, a script may write only after it has removed something
  settle_tokens(entry, tokens)
  if status == 'expired' then note_expired(entry, now_ms()) end
  if charged then correct(entry, charged, tonumber(used) - tonumber(entry.estimate)) end
  -- The cancel has announced the end already.
  if not entry.cancelled and status ~= '' then announce(id, entry, status, claim, '', true) end
  return 1
end

local replies = {}
for i = 2, #ARGV, 7 do replies[#replies + 1] = ack(unpack(ARGV, i, i + 6)) end
return replies
