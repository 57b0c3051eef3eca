"""Readers: a module or package for each format, which returns the parts of a file as Markdown (`reading.FileReading`).

Families share a package: `sheets`, `slides`, `word` and `odf` with `office` below them, `mail`, `markup`. The rest of
this folder serves several families: containers (`archive`, `compound`), words (`charsets`, `markdown`, `numerals`,
`guard`) and memory.
"""
