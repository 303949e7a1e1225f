-- id, kind, data, whether it is the end
local entry = read(ARGV[2])
announce(ARGV[2], entry, ARGV[3], entry and entry.claim, ARGV[4], ARGV[5] == '1')
