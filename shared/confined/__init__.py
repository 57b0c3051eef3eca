"""Confined processes, in which all untrusted contents are read: files, pages, robots.txt, sitemaps, repositories, rows.

A process has no secrets, no network, no database and no files: it receives requests and open descriptors, and sends
messages. The kernel limits its processor time and memory, and its parent limits its time and kills it. The parent is a
worker, or the API, which has the contents of large JSON bodies separated from their fields. See
`docs/explanation/security.md`.

Files are parsed by `shared.ingest.parse.isolation.sandbox`. Contents of sources are read by readers
(`shared.confined.reading`). To add a reader:

1. Write a generator of bytes, `def read(options, files)`. `options` come from the worker, as JSON; `files` are
   the opened files. Each yielded message has at most 2 MB, and reading continues only when the worker takes messages.
   Raise `Unreadable` with a sentence for the owner of the source.
2. Name it in the `READERS` of its module. The module is imported by the process, so it imports no more than reading
   needs, and everything that it needs: later imports are refused. A module with heavy libraries is one of its own,
   because a process imports one module of readers.
3. The worker calls `reader.read(MODULE, "name", options, files)`, and validates each message: the content may have
   taken over the process. A reader is bound to the tenant of the source; `open_source` has it as `Access.reader`.
"""
