"""The limiter: the load that all processes together may put on a provider, and when to pause it."""
