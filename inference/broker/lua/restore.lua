-- queue, model, tier, length, id, claim, worker, lease ms, tenant, prompt tokens, expected tokens, estimate, arrival,
-- mailbox, streamed, body  ->  1 if the lease is ours
local queue, id, claim, worker = ARGV[2], ARGV[6], ARGV[7], ARGV[8]
local until_ms, entry = now_ms() + tonumber(ARGV[9]), read(id)
if entry and entry.claim ~= claim then return 0 end
if not entry and ARGV[17] ~= '' then
  call('SADD', P .. 'plain', queue)
  call('HSET', P .. 'e:' .. id, 'q', queue, 'a', ARGV[14], 'b', ARGV[17])
elseif not entry then
  register(queue, ARGV[3], ARGV[4], ARGV[5])
  call('HSET', P .. 'e:' .. id, 'q', queue, 't', ARGV[10], 'p', ARGV[11], 'x', ARGV[12], 'e', ARGV[13], 'a', ARGV[14],
    'j', '-')    -- it began before
  if ARGV[15] ~= '' then call('HSET', P .. 'e:' .. id, 'm', ARGV[15]) end
  if ARGV[16] == '1' then call('HSET', P .. 'e:' .. id, 's', '1') end
  call('ZADD', P .. 'jobs:' .. ARGV[10], PUBLISHED, id)
  call('ZADD', P .. 'running', 0, run_of(ARGV[10], id))
end
call('HSET', P .. 'e:' .. id, 'c', claim, 'w', worker)
call('ZADD', P .. 'l:' .. queue, until_ms, id)
return 1
