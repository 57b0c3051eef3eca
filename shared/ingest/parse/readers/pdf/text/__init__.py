"""The text layer of a page: its characters, their fonts, and its words with their places."""
