"""Collections, documents and chunks, and what is known of their contents."""
