"""Collections, builds, documents and chunks."""
