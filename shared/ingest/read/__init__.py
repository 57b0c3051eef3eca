"""Read: pages without a text layer become texts."""
