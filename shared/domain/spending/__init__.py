"""What calls cost, and the limits on calls, tokens and money."""
