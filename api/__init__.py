"""The HTTP API: it accepts documents, reports their progress and answers questions."""
