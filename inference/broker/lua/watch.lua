-- id, mailbox, ms
local key = P .. 'w:' .. ARGV[2]
call('SADD', key, ARGV[3])
if call('PTTL', key) < tonumber(ARGV[4]) then call('PEXPIRE', key, ARGV[4]) end
