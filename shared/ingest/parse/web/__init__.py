"""Pages of the web: their addresses, and facts that a crawler needs."""
