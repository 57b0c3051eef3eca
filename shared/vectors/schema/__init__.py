"""The stored form of collections and points: fields, filters, vectors, layouts; without requests."""
