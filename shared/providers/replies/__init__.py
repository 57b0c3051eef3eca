"""Replies of models: reading of complete and streamed replies, and of their contents."""
