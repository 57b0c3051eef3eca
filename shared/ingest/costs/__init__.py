"""Costs: prices, budgets, and estimates of a load or a rebuild before it starts."""
