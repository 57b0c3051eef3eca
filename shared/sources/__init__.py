"""Sources: corpora outside foreask, such as a folder, a bucket or a site, which syncs list and read."""
