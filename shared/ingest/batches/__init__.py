"""Generation of questions by batches, which cost less and take up to a day."""
