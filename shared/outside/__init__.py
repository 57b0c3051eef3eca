"""Requests to servers that tenants name: their addresses are checked, and connections use the checked address."""
