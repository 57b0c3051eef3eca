#!lua flags=allow-oom
-- The endings of ingest calls with a model.
--
-- KEYS  1 states of paused and recovering tenants (hash: tenant, JSON), 2 a tenant's last endings (list)
-- ARGV  'show'    returns for each of these tenants its name, the number of chunks that it may hold, the milliseconds
--                 until its next trial, and the reason of the pause
--       'trial'   2 tenant: notes that a chunk was claimed whose trial was due
--       'record'  2 tenant, 3 JSON list of endings (reasons; empty if the reply was usable), 4 whether they are of a
--                 trial (1, 0): returns the milliseconds for which the tenant is paused
--       'resume'  2 tenant: forgets its endings; returns whether it was paused

local WINDOW = 50                    -- last calls of a tenant that are counted
local MOST = 25                      -- more calls among them with the same reason pause the tenant
local RECOVERING = 4                 -- chunks that a tenant may hold after its trial got a usable reply
local SAMPLE = 4                     -- calls of a recovering tenant after which more than half pause it again
local RECOVERED = 25                 -- calls after which it may start all calls again
local FIRST, LONGEST = 30000, 180000 -- pauses before trials
local TRIAL = 60000                  -- time after which another trial starts if the last one has not ended
local KEPT = 86400000                -- unused state expires after a day

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function save(tenant, state)
  state.at = now
  redis.call('HSET', KEYS[1], tenant, cjson.encode(state))
  redis.call('PEXPIRE', KEYS[1], KEPT)
end

local function show()
  local stored, tenants = redis.call('HGETALL', KEYS[1]), {}
  for i = 1, #stored, 2 do
    local tenant, state = stored[i], cjson.decode(stored[i + 1])
    local is_outdated = now > state.at + KEPT or state.at > now + 1000 -- unused, or the clock was set back
    if is_outdated then
      redis.call('HDEL', KEYS[1], tenant)
    else
      local chunks = RECOVERING
      if state.paused_until > 0 then chunks = state.paused_until > now and 0 or 1 end
      for _, value in ipairs({ tenant, chunks, math.max(0, state.paused_until - now), state.reason }) do
        tenants[#tenants + 1] = value
      end
    end
  end
  return tenants
end

local function start_trial(tenant)
  local stored = redis.call('HGET', KEYS[1], tenant)
  local state = stored and cjson.decode(stored)
  if not state or state.paused_until == 0 or state.paused_until > now then return 0 end
  state.paused_until = now + TRIAL
  save(tenant, state)
  return 1
end

local function most_frequent(endings)
  local counts, reason, most = {}, '', 0
  for _, ending in ipairs(endings) do
    if ending ~= '' then
      counts[ending] = (counts[ending] or 0) + 1
      if counts[ending] > most then reason, most = ending, counts[ending] end
    end
  end
  return reason, most
end

local function count(endings)
  for _, ending in ipairs(endings) do redis.call('LPUSH', KEYS[2], ending) end
  redis.call('LTRIM', KEYS[2], 0, WINDOW - 1)
  redis.call('PEXPIRE', KEYS[2], KEPT)
  local last = redis.call('LRANGE', KEYS[2], 0, -1)
  return #last, most_frequent(last)
end

local function has_usable(endings)
  for _, ending in ipairs(endings) do
    if ending == '' then return true end
  end
  return false
end

local function pause(tenant, state, reason)
  state.paused_until = now + math.min(LONGEST, FIRST * 2 ^ math.min(state.step, 10))
  state.step, state.reason = state.step + 1, reason
  save(tenant, state)
  return state.paused_until - now
end

local function record(tenant, endings, is_trial)
  local stored = redis.call('HGET', KEYS[1], tenant)
  local state = stored and cjson.decode(stored)
  if state and state.paused_until > 0 then
    if not is_trial then return 0 end -- these calls had started before the pause
    if has_usable(endings) then
      redis.call('DEL', KEYS[2])
      state.paused_until = 0
      save(tenant, state)
    end
    local _, reason = count(endings)
    return state.paused_until == 0 and 0 or pause(tenant, state, reason)
  end
  local calls, reason, most = count(endings)
  if state then
    if calls >= SAMPLE and most > calls / 2 then return pause(tenant, state, reason) end
    if calls >= RECOVERED then redis.call('HDEL', KEYS[1], tenant) end
  elseif most > MOST then
    return pause(tenant, { step = 0 }, reason)
  end
  return 0
end

local function resume(tenant)
  redis.call('DEL', KEYS[2])
  return redis.call('HDEL', KEYS[1], tenant)
end

if ARGV[1] == 'show' then return show() end
if ARGV[1] == 'trial' then return start_trial(ARGV[2]) end
if ARGV[1] == 'resume' then return resume(ARGV[2]) end
return record(ARGV[2], cjson.decode(ARGV[3]), ARGV[4] == '1')
