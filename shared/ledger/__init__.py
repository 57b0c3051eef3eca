"""The ledger: every unit of work is a row in PostgreSQL, which is authoritative for its state."""
