-- owner, ids...  ->  gives back what they were admitted with: their rows were not written
local now, owner = now_ms(), ARGV[2]
local rate, burst = key_windows(owner)
for i = 3, #ARGV do
  local of = end_reservation(ARGV[i])
  if of then
    drop_cost(ARGV[i])
    give_back(burst, SECOND, of.at, 1, of.tokens, now)
    give_back(rate, MINUTE, of.at, 1, of.tokens, now)
    give_back(tenant_window(of.tenant), MINUTE, of.at, 1, of.tokens, now)
  end
end
