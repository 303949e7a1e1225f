-- What was let in lately, in buckets of time; as inference/admission/windows.py. A window reaches back over `count`
-- whole buckets and the one that is under way: what came within the time counts, and a little more. So no stretch
-- of that time, wherever it begins, has more in it than the limit.

local MINUTE = { width = 1000, count = 60 }    -- ms
local SECOND = { width = 100, count = 10 }
local HALF_MINUTE = { width = 2000, count = 15 }

local function read_window(name, size, now)
  local window = { name = name, size = size, at = math.floor(now / size.width), buckets = {}, requests = 0, tokens = 0 }
  local kept = call('GET', P .. name)
  for i = 1, kept and #kept or 0, 24 do
    local at, requests, tokens = struct.unpack('<ddd', kept, i)
    at = math.min(at, window.at)    -- the clock may have been set back
    if at >= window.at - size.count then
      window.buckets[#window.buckets + 1] = { at = at, requests = requests, tokens = tokens }
      window.requests, window.tokens = window.requests + requests, window.tokens + tokens
    end
  end
  window.is_new = #window.buckets == 0
  return window
end

local function write_window(window)
  local packed = {}
  for i, bucket in ipairs(window.buckets) do packed[i] = struct.pack('<ddd', bucket.at, bucket.requests, bucket.tokens) end
  if #packed == 0 then return call('DEL', P .. window.name) end
  call('SET', P .. window.name, table.concat(packed), 'PX', (window.size.count + 1) * window.size.width)
end

local function add_to_window(window, requests, tokens)
  local last = window.buckets[#window.buckets]
  if not last or last.at ~= window.at then
    last = { at = window.at, requests = 0, tokens = 0 }
    window.buckets[#window.buckets + 1] = last
  end
  last.requests, last.tokens = last.requests + requests, last.tokens + tokens
  window.requests, window.tokens = window.requests + requests, window.tokens + tokens
end

-- What was let in at `at_ms` was less than was taken for it; that it was more is counted where it is found out.
local function take_from_window(window, at_ms, requests, tokens)
  for _, bucket in ipairs(window.buckets) do
    if bucket.at == math.floor(at_ms / window.size.width) then
      bucket.requests, bucket.tokens = math.max(0, bucket.requests - requests), math.max(0, bucket.tokens - tokens)
    end
  end
end

-- Ms until `asked` more of `field` fit below `limit`; nil if they never do.
local function fits_after(window, field, asked, limit, now)
  local left = window[field] + asked - limit
  for _, bucket in ipairs(window.buckets) do
    left = left - bucket[field]
    if left <= 0 and asked <= limit then return (bucket.at + window.size.count + 1) * window.size.width - now end
  end
  return nil
end

-- Ms until all that is in the window has left it.
local function clears_after(window, now)
  local last = window.buckets[#window.buckets]
  return last and (last.at + window.size.count + 1) * window.size.width - now or 0
end

local function key_windows(owner) return 'rate:' .. owner, 'burst:' .. owner end

local function tenant_window(tenant) return 'rate:tenant=' .. tenant end

local function give_back(name, size, at_ms, requests, tokens, now)
  local window = read_window(name, size, now)
  if window.is_new then return end
  take_from_window(window, at_ms, requests, tokens)
  write_window(window)
end

-- Put right what a job was let in with: `used` tokens instead of those `reserved` at `at_ms`.
local function correct_window(name, at_ms, reserved, used, now)
  if used < reserved then return give_back(name, MINUTE, at_ms, 0, reserved - used, now) end
  local window = read_window(name, MINUTE, now)
  if window.is_new then return end
  add_to_window(window, 0, used - reserved)
  write_window(window)
end

-- A job ends: what it used of the tokens that it was let in with. Where no limit counts them, it does not know when.
local function settle_tokens(entry, used)
  if not entry.admitted or used == '' then return end
  local at_ms, reserved, now = tonumber(entry.admitted), tokens_of(entry), now_ms()
  if tonumber(used) == reserved then return end
  if entry.owner then correct_window(key_windows(entry.owner), at_ms, reserved, tonumber(used), now) end
  correct_window(tenant_window(entry.tenant), at_ms, reserved, tonumber(used), now)
end
