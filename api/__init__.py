"""The HTTP API: uploads are accepted, progress is told, questions are answered."""
