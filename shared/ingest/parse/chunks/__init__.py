"""Division of a text into chunks, with their questions and languages."""
