"""Messages between processes, and values that they share, in Valkey."""

from shared.process.start import without

with without("opentelemetry"):  # the client loads it wherever it is installed, which takes 4 MB and 0.06 s
    import redis.asyncio  # noqa: F401
