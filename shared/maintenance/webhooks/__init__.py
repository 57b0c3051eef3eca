"""Webhooks: messages to addresses of tenants, signed, and sent again until they are taken."""
