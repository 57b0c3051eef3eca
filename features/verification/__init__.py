"""Verification: points in Qdrant are compared with the ledger, and damaged collections are repaired."""
