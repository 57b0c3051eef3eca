"""Messages between processes, and values that they share, in Valkey."""

from shared.process.start import without

with without("opentelemetry", "opentelemetry.sdk"):  # the client would load its metrics: 4 MB
    import redis.asyncio  # noqa: F401
