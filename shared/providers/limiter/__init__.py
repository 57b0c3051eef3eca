"""The limiter: what the whole pool may ask of a provider, and when it is better left alone."""
