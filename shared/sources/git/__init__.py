"""Git repositories as sources."""
