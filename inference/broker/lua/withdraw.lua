-- owner, ids...  ->  gives back what they were admitted with: their rows were not written
local now, owner = now_ms(), ARGV[2]
local rate, burst = key_windows(owner)

-- Only what counted it: who has no key of their own is their tenant, whose window is then one and the same.
local function uncount(of)
  if of.of_second == 1 then give_back(burst, SECOND, of.at, 1, of.tokens, now) end
  if of.of_key == 1 then give_back(rate, MINUTE, of.at, 1, of.tokens, now) end
  if of.of_tenant == 1 then give_back(tenant_window(of.tenant), MINUTE, of.at, 1, of.tokens, now) end
end

for i = 3, #ARGV do
  local of = end_reservation(ARGV[i])
  if of then
    drop_cost(ARGV[i])
    uncount(of)
  end
end
