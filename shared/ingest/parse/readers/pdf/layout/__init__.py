"""The layout of a page: its words as lines, columns and tables in the order of reading."""
