"""The limiter of the load on a provider by all processes together; it also pauses calls after failures."""

from shared.process.start import without

with without("opentelemetry"):  # the client loads it wherever it is installed, which takes 4 MB and 0.06 s
    import redis.asyncio  # noqa: F401
