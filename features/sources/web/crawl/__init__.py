"""A run over pages of the web, its state, and its memory."""
