"""Moves the times that engines store into the past, so that no test waits for their clocks."""

from __future__ import annotations

from datetime import timedelta

from redis.asyncio import Redis

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

# The broker's values above 10^12 are times in milliseconds, also in JSON objects. The members of its sorted sets expire
# at their scores.
_AGE = """#!lua flags=allow-oom
for _, key in ipairs(redis.call('KEYS', 'foreask:*')) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      local value = tonumber(fields[i + 1])
      if string.sub(fields[i + 1], 1, 1) == '{' then
        local object = cjson.decode(fields[i + 1])
        for name, at in pairs(object) do
          if type(at) == 'number' and at > 1e12 then object[name] = at - ARGV[1] end
        end
        redis.call('HSET', key, fields[i], cjson.encode(object))
      elseif value and value > 1e12 then
        redis.call('HSET', key, fields[i], string.format('%.17g', value - ARGV[1]))
      end
    end
  elseif kind == 'zset' then
    local members = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #members, 2 do redis.call('ZADD', key, members[i + 1] - ARGV[1], members[i]) end
  end
end
"""


async def age_limits(redis: Redis, by: timedelta) -> None:
    """Move the times of the limits of providers and tenants into the past."""
    await redis.eval(_AGE, 0, by / timedelta(milliseconds=1))


async def age_rows(database: Database, column: str, by: timedelta) -> None:
    """Move a column of times into the past; its name is like `chunks.due_at`."""
    table, _, name = column.partition(".")
    async with database.begin() as connection:
        await connection.execute(Statement(f"UPDATE {table} SET {name} = {name} - CAST(:by AS interval)"), {"by": by})
