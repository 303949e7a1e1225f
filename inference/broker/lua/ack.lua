-- {id, claim, status or '', what it used or ''}...  ->  1 for each that was ours
local function ack(id, claim, status, used)
  local entry = mine(id, claim)
  if not entry then return 0 end
  local charged = used ~= '' and charged_by(id)
  forget_leased(id, entry)    -- first: with the memory full, a script may write only after it has removed something
  if charged then correct(entry, charged, tonumber(used) - tonumber(entry.estimate)) end
  -- The cancel has announced the end already.
  if not entry.cancelled and status ~= '' then announce(id, entry, status, claim, '', true) end
  return 1
end

local replies = {}
for i = 2, #ARGV, 4 do replies[#replies + 1] = ack(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
return replies
