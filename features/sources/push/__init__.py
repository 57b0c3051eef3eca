"""Sources whose entries a program outside foreask pushes, page by page."""
