"""Builds next to the live one: their routes, and the gate, which decides whether a build may replace the live one."""
