"""Parsing in confined child processes: their messages, and the checks of their replies."""
