"""Replies of servers: addresses, links, lists, sitemaps and feeds. All are untrusted input."""
