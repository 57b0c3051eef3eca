"""A server of the Model Context Protocol, whose tools read and write the documents of a foreask server."""
