"""Tables as sources: files whose rows are documents."""
