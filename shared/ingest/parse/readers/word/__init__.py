"""The parts of a Word file: package, styles, numbers, text, tables and equations."""
