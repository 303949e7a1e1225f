-- key, secret
if call('GET', ARGV[2]) == ARGV[3] then call('DEL', ARGV[2]) end
