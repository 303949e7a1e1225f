-- ms to keep, {key less the prefix, its value as read or '', its new value}...  ->  how many nobody had changed since
local written = 0
for i = 3, #ARGV, 3 do
  if (call('GET', P .. ARGV[i]) or '') == ARGV[i + 1] then
    call('SET', P .. ARGV[i], ARGV[i + 2], 'PX', ARGV[2])
    written = written + 1
  end
end
return written
