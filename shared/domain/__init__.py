"""Values, errors and pure decisions that every other package shares. Imports nothing of the project."""
