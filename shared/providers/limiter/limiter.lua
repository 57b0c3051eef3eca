#!lua flags=allow-oom
-- One pass over the shared state of a provider: settle the finished calls, then grant calls within all limits.
--
-- KEYS  1 the provider's state (hash), 2 its calls in flight (sorted set: call, end of its lease), 3 its calls in
--       flight in the service tier flex, 4 the reason of its last failure (hash: reason, since), which no call has
--       succeeded after, then a state (hash) for each tenant with limits. The state contains numbers only, because
--       an older release reads it, too.
-- ARGV  1 JSON, written by shared/providers/limiter/script.py, which also reads the reply:
--       milliseconds now, breaker (0 closed, 1 open, 2 half-open), pause, cooldown and wait in milliseconds, the wait of
--       calls in the tier flex because of their own limit, the time since when all of them are refused, calls in flight,
--       the limit of these (0: none), the index of a grant that must probe (0: none), the reason of the last failure
--       ('': none) and the milliseconds since the first one, and then for each
--       requested call its reserved tokens, or the reason of the refusal:
--       -1 not now, -2 the breaker is open, -10 - n its tenant must wait n milliseconds
--
-- A bucket is {units per millisecond, capacity}, or {0, 0} without such a limit.

local OPENS_AFTER = 10              -- consecutive failures in all processes
local OPEN_MOST = 60000             -- longest time for which the breaker stays open
local COOLDOWN_MOST = 3600000
local GUESSED_COOLDOWN_MOST = 60000  -- longest cooldown if a 429 has no retry-after
local PACED = 5000                  -- time after a cooldown in which calls are evenly paced
local KEPT = 86400000               -- an unused state expires after a day
local DEFAULT_COMPLETION = 500      -- tokens, before there is an average and if a request sets no maximum
local QUERY_WAITS = 1500            -- a waiting query repeats its request within this time
local SLOT = 10000                  -- use is counted in seven slots of ten seconds
local QUERY, FLEX = 1, 2            -- kinds of calls; all others are 0
local REASON_KEPT = 900000          -- a reason expires this long after the last failure and its cooldown
local FLEX_PAUSE_MOST = 60000       -- longest pause between two calls in the tier flex while all are refused

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local input = cjson.decode(ARGV[1])
local flight = KEYS[2]
local reason_key = KEYS[4]

local function load(key)
  local fields, values = redis.call('HGETALL', key), {}
  for i = 1, #fields, 2 do values[fields[i]] = tonumber(fields[i + 1]) end
  if (values.seen or now) > now + 1000 then values = {} end -- the clock was set back: the stored times are invalid
  values.seen = now
  return values
end

local function save(key, values)
  local flat = {}
  for field, value in pairs(values) do
    flat[#flat + 1] = field
    flat[#flat + 1] = string.format('%.17g', value)
  end
  redis.call('DEL', key)
  redis.call('HSET', key, unpack(flat))
  redis.call('PEXPIRE', key, KEPT)
end

-- A new bucket starts empty, because the broker may have lost an old one after some use.
local function refill(values, name, bucket)
  local at = values[name .. '_at']
  if at == nil or bucket[2] == 0 then
    values[name], values[name .. '_at'] = 0, now
  elseif now > at then
    values[name] = math.min(bucket[2], values[name] + (now - at) * bucket[1])
    values[name .. '_at'] = now
  end
end

local function count(values, requests, tokens)
  local slot = math.floor(now / SLOT)
  local index = slot % 7
  if values['slot' .. index] ~= slot then
    values['slot' .. index], values['requests' .. index], values['tokens' .. index] = slot, 0, 0
  end
  values['requests' .. index] = values['requests' .. index] + requests
  values['tokens' .. index] = values['tokens' .. index] + tokens
end

local s = load(KEYS[1])
local requests, tokens = input.buckets[1], input.buckets[2]
local tenants = {}
for i, buckets in ipairs(input.tenants) do
  tenants[i] = { values = load(KEYS[4 + i]), requests = buckets[1], tokens = buckets[2] }
end
for _, tenant in ipairs(tenants) do
  refill(tenant.values, 'r', tenant.requests)
  refill(tenant.values, 't', tenant.tokens)
end
refill(s, 'r', requests)
refill(s, 't', tokens)

-- Remove calls whose leases have ended, and renew others. A lease that ends too late is from before the clock was set
-- back: it would occupy its slot until the clock has caught up.
local function renew(key)
  local latest = now + input.lease
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  for _, call in ipairs(redis.call('ZRANGEBYSCORE', key, string.format('(%.17g', latest), '+inf')) do
    redis.call('ZADD', key, latest, call)
  end
  for _, call in ipairs(input.renew) do redis.call('ZADD', key, 'XX', latest, call) end
end

renew(flight)
local in_flight = redis.call('ZCARD', flight)
s.limit = s.limit or input.in_flight
s.cooldown = s.cooldown or 0

-- Slots in flight. If there are at least two, some are reserved for queries.
local function slots(is_query)
  local all = math.max(1, math.floor(s.limit))
  if is_query or input.query_share == 0 or all == 1 then return all end
  return all - math.max(1, math.floor(input.query_share * all))
end

local in_use = in_flight >= 0.8 * slots(false)

-- Calls in the tier flex. Their limit follows the capacity that the provider has left: a success raises it by one, and a
-- refusal lowers it by one, so half of the calls may be refused at most. Refused calls are not billed. If it is below
-- one, calls start one at a time, with a pause between them that each refusal doubles. Nothing is read before the first
-- such call.
local flex_flight, flex_in_flight = KEYS[3], 0
if s.flex then
  renew(flex_flight)
  flex_in_flight = redis.call('ZCARD', flex_flight)
end
local flex_in_use = s.flex and flex_in_flight >= 0.8 * math.floor(s.flex)

local function flex_refused()
  s.flex = s.flex or 1
  if s.flex > 1 then
    s.flex = math.max(1, s.flex - 1)
  else
    s.flex = math.max(s.flex / 2, math.min(0.5, input.cooldown / FLEX_PAUSE_MOST))
    s.flex_dry = s.flex_dry or now
  end
  s.flex_until = now + input.cooldown / s.flex
end

local function flex_served()
  if flex_in_use then s.flex = math.max(1, s.flex) + 1 end
  s.flex_dry = nil
end

local function flex_wait()
  s.flex = s.flex or input.in_flight
  if s.flex_dry and now < s.flex_until then return math.ceil(s.flex_until - now) end
  if flex_in_flight >= math.max(1, math.floor(s.flex)) then return 100 end
  return 0
end

-- Finished calls -------------------------------------------------------------------------------------------------

local function close(half_open)
  if half_open then s.open, s.opens, s.failures, s.closed_at = nil, 0, 0, now end
end

local function open()
  s.opens = (s.opens or 0) + 1
  s.open, s.probing = now + math.min(OPEN_MOST, input.open * 2 ^ math.min(s.opens - 1, 10)), 0
end

local function failed(call)
  if s.open then
    if call.probe then open() end -- any other call started before it opened
  elseif call.at >= (s.closed_at or 0) then
    s.failures = (s.failures or 0) + 1
    if s.failures >= OPENS_AFTER then open() end
  end
end

-- Keep the reason of a failure until a call succeeds that started after it. A call that started before the stored
-- failure replaces its reason only if it pauses the calls for longer.
local function explain(call, pauses)
  if call.reason == '' or (not pauses and call.at <= (s.reason_at or 0)) then return end
  s.reason_at = now
  redis.call('HSET', reason_key, 'reason', call.reason)
  redis.call('HSETNX', reason_key, 'since', now)
  redis.call('PEXPIRE', reason_key, math.max(0, s.cooldown - now) + REASON_KEPT)
end

local function recovered(call)
  if not s.reason_at or call.at <= s.reason_at then return end
  s.reason_at = nil
  redis.call('DEL', reason_key)
end

local function rest(milliseconds)
  local before = s.cooldown
  s.cooldown = math.max(s.cooldown, now + math.min(milliseconds, COOLDOWN_MOST))
  -- After the cooldown an empty bucket fills, so calls are paced and do not arrive all at once.
  s.r, s.r_at = math.min(s.r, 0), s.cooldown
  s.p, s.p_at = 0, s.cooldown
  return s.cooldown > before
end

-- Concurrent calls fail together: only the first failure lowers the limit.
local function overloaded(call)
  if call.at <= (s.lowered_at or 0) then return false end
  s.limit, s.lowered, s.lowered_at = math.max(1, s.limit * 0.7), 1, now
  return true
end

local function limited(call)
  if overloaded(call) then s.in_a_row = (s.in_a_row or 0) + 1 end
  local guess = math.min(GUESSED_COOLDOWN_MOST, input.cooldown * 2 ^ math.min((s.in_a_row or 1) - 1, 10))
  explain(call, rest(call.retry_after >= 0 and call.retry_after or guess))
end

local function succeeded(call, held)
  s.failures = 0
  if call.at > (s.lowered_at or 0) then s.in_a_row = 0 end
  if held and in_use then s.limit = s.limit + (s.lowered and 1 / s.limit or 1) end
end

local function refund(values, bucket, back)
  values.t = math.min(math.max(bucket[2], values.t), values.t + back)
  count(values, 0, -back)
end

local function settle(call)
  local tenant = tenants[call.tenant]
  local back = call.reserved - call.tokens
  refund(s, tokens, back)
  if tenant then refund(tenant.values, tenant.tokens, back) end
  if call.completion >= 0 then
    s.average = s.average and s.average + 0.1 * (call.completion - s.average) or call.completion
  end
end

for _, e in ipairs(input.ended) do
  local call = {
    at = e[2], tenant = e[3], reserved = e[4], tokens = e[5], completion = e[6], retry_after = e[8], probe = e[9] == 1,
    flex = e[10] == 1, reason = e[11],
  }
  local outcome = e[7]
  if call.flex then redis.call('ZREM', flex_flight, e[1]) end
  local held
  if e[13] == 1 then -- its process keeps the slot for the next call
    held = redis.call('ZSCORE', flight, e[1]) ~= false
  else
    held = redis.call('ZREM', flight, e[1]) == 1
  end
  if e[12] == 1 then count(s, 1, call.reserved) end -- it had such a slot, so it was not granted here
  if held and call.tokens >= 0 then settle(call) end
  if outcome == 'ok' then
    local took = math.max(0, now - call.at) -- negative if the clock was set back meanwhile
    s.took = s.took and s.took + 0.1 * (took - s.took) or took
    succeeded(call, held and e[13] == 0) -- the call of a kept slot is reported later, when more may be in use
    recovered(call)
    if call.flex and held then flex_served() end
    close(call.probe)
  elseif outcome == 'no capacity' then
    flex_refused() -- the provider is healthy: no cooldown, and no failure
  elseif outcome == 'limited' then
    limited(call)
    s.failures = 0
    close(call.probe)
  elseif outcome == 'refused' then -- its key is rejected, as for every other call
    explain(call, rest(call.retry_after >= 0 and call.retry_after or GUESSED_COOLDOWN_MOST))
    close(call.probe)
  elseif outcome == 'unsupported' then -- other calls continue
    explain(call, false)
  elseif outcome == 'failed' then
    failed(call)
    explain(call, call.probe)
  elseif outcome == 'timeout' then
    overloaded(call)
    failed(call)
    explain(call, call.probe)
  elseif call.probe and s.open then -- its caller cancelled it: another call may probe
    s.probing = 0
  end
end

for _, call in ipairs(input.returned) do redis.call('ZREM', flight, call) end

-- New calls ------------------------------------------------------------------------------------------------------

in_flight = redis.call('ZCARD', flight)
if s.flex then flex_in_flight = redis.call('ZCARD', flex_flight) end
local pace = { s.limit / 1000, 1 }
local paced = requests[2] == 0 and now < s.cooldown + PACED
refill(s, 'p', pace)

local function until_filled(values, name, bucket, wanted)
  local missing = wanted - values[name]
  if missing <= 0 then return 0 end
  return math.max(1, math.ceil(missing / bucket[1])) + math.max(0, values[name .. '_at'] - now)
end

-- The units that a bucket needs before a call may start. For ingest this includes a share reserved for queries, which is
-- not wasted, because a bucket fills up to its capacity only.
local function needed(bucket, is_query)
  if is_query then return 1 end
  return math.min(bucket[2], 1 + input.query_share * bucket[2])
end

-- One call may overdraw the tokens, so that a call larger than the bucket does not wait for ever.
local function until_free(values, requests_bucket, tokens_bucket, is_query)
  if not is_query and now < (values.query_waits or 0) then return math.min(100, values.query_waits - now) end
  local wait = 0
  if requests_bucket[2] > 0 then wait = until_filled(values, 'r', requests_bucket, needed(requests_bucket, is_query)) end
  if tokens_bucket[2] > 0 then
    wait = math.max(wait, until_filled(values, 't', tokens_bucket, needed(tokens_bucket, is_query)))
  end
  return wait
end

local function providers_wait(is_query)
  if now < s.cooldown then return s.cooldown - now end
  if requests[2] == 0 then
    if in_flight >= slots(is_query) then return 100 end
    if paced and s.p < 1 then return until_filled(s, 'p', pace, 1) end
  end
  return until_free(s, requests, tokens, is_query)
end

-- While a query waits, no ingest call starts, so the query gets the next units: a small bucket has no share to reserve.
local function note(values, is_query, waits)
  if is_query and input.query_share > 0 then values.query_waits = waits and now + QUERY_WAITS or nil end
end

local function take(values, reserved)
  values.r, values.t = values.r - 1, values.t - reserved
  count(values, 1, reserved)
end

local function grant(asked)
  local expected = s.average or DEFAULT_COMPLETION
  if asked[4] >= 0 then expected = s.average and math.min(expected, asked[4]) or asked[4] end
  local reserved = math.ceil(asked[3] + expected)
  take(s, reserved)
  s.p = s.p - 1
  local tenant = tenants[asked[2]]
  if tenant then take(tenant.values, reserved) end
  redis.call('ZADD', flight, now + input.lease, asked[1])
  in_flight = in_flight + 1
  if asked[5] == FLEX then
    redis.call('ZADD', flex_flight, now + input.lease, asked[1])
    flex_in_flight = flex_in_flight + 1
  end
  return reserved
end

local waits, flex_waits, probe, answers = { [0] = 0, [QUERY] = 0, [FLEX] = 0 }, 0, 0, {}
local function answer(index, asked)
  local kind = asked[5]
  local is_query = kind == QUERY
  if s.open and now < s.open then return -2 end
  if waits[kind] > 0 then return -1 end -- in order: no call overtakes a waiting call of its kind
  if kind == FLEX then
    if flex_waits == 0 then flex_waits = flex_wait() end
    if flex_waits > 0 then return -1 end
  end
  local wait = providers_wait(is_query)
  if s.open and now < (s.probing or 0) then wait = math.max(wait, 250) end
  waits[kind] = wait
  note(s, is_query, wait > 0)
  if wait > 0 then return -1 end
  local tenant = tenants[asked[2]]
  local tenants_wait = tenant and until_free(tenant.values, tenant.requests, tenant.tokens, is_query) or 0
  if tenant then note(tenant.values, is_query, tenants_wait > 0) end
  if tenants_wait > 0 then return -10 - tenants_wait end
  if s.open then probe, s.probing = index, now + input.probe end
  return grant(asked)
end
for index, asked in ipairs(input.wanted) do answers[index] = answer(index, asked) end

save(KEYS[1], s)
for i, tenant in ipairs(tenants) do save(KEYS[4 + i], tenant.values) end
if in_flight > 0 then redis.call('PEXPIRE', flight, input.lease) end
if flex_in_flight > 0 then redis.call('PEXPIRE', flex_flight, input.lease) end

local breaker, pause = 0, 0
if s.open then
  breaker = now < s.open and 1 or 2
  pause = math.max(s.open, s.probing or 0) - now
end
local limit = requests[2] == 0 and math.floor(s.limit) or 0
if s.flex_dry then flex_waits = math.max(flex_waits, math.ceil(s.flex_until - now)) end
local wait = 0
for _, kind in ipairs({ QUERY, 0, FLEX }) do
  if wait == 0 then wait = waits[kind] end
end
local reason, failing = '', 0
if s.reason_at then
  local stored = redis.call('HMGET', reason_key, 'reason', 'since')
  if stored[1] then reason, failing = stored[1], math.max(0, now - tonumber(stored[2] or now)) end
end
return {
  now, breaker, math.max(0, pause), math.max(0, s.cooldown - now), wait, flex_waits,
  s.flex_dry and now - s.flex_dry or 0, in_flight, limit, probe, reason, failing,
  unpack(answers),
}
