"""Work items of the stages, their claims and their outcomes."""
