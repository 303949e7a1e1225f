-- id, mailbox
call('SREM', P .. 'w:' .. ARGV[2], ARGV[3])
