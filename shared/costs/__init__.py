"""Estimates: what a load or a rebuild will cost, said before it begins."""
