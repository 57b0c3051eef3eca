"""Keys and their scopes, the authors of changes, and database roles."""
