"""Pages of the web as a source: a list of addresses, a sitemap, a feed, or a crawl."""
