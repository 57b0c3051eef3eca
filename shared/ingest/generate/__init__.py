"""Generation: a model writes the questions that each chunk answers; the filter drops the bad ones."""
