"""The limiter of the load on a provider by all processes together; it also pauses calls after failures."""

from shared.process.start import without

with without("opentelemetry", "opentelemetry.sdk"):  # the client would load its metrics: 4 MB
    import redis.asyncio  # noqa: F401
