-- id, claim, status  ->  1 if it was ours
local entry = mine(ARGV[2], ARGV[3])
if not entry then return 0 end
forget(ARGV[2], entry)
-- The cancel has announced the end already.
if not entry.cancelled then announce(ARGV[2], entry, ARGV[4], ARGV[3], '', true) end
return 1
