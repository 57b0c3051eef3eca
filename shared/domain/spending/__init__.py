"""The costs of calls, and the limits on calls, tokens and money."""
