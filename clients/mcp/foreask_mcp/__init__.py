"""A server of the Model Context Protocol that gives language models the documents of a foreask server as tools."""
