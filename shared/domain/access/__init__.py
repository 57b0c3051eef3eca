"""Who may do what: keys, tenants, authors of changes, and database roles."""
