"""Webhooks: signed messages to addresses of tenants, which are sent again until they are accepted."""
