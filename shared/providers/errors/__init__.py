"""Errors of calls: answers of providers, and failed connections, become errors with a decision."""
