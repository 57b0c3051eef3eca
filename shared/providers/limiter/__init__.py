"""The limiter of the load on a provider by all processes together; it also pauses calls after failures."""
