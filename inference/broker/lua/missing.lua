-- lease ms, {id, claim}...  ->  for each: 1 if it was asked about for longer than a lease, at every look
local FORGET_AFTER_LEASES = 20      -- looks so far apart say nothing of the time between
local key, now, lease_ms, replies = P .. 'missing', now_ms(), tonumber(ARGV[2]), {}
local known, fields = {}, call('HGETALL', key)
for i = 1, #fields, 2 do known[fields[i]] = tonumber(fields[i + 1]) end
call('DEL', key)
for i = 3, #ARGV, 2 do
  local token = ARGV[i] .. ARGV[i + 1]
  local since = math.min(known[token] or now, now)    -- the clock may have been set back
  call('HSET', key, token, int(since))
  replies[#replies + 1] = now - since > lease_ms and 1 or 0
end
if #replies > 0 then call('PEXPIRE', key, FORGET_AFTER_LEASES * lease_ms) end
return replies
