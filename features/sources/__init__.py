"""Sources: collections are kept in sync with folders, buckets, repositories, web sites, tables and databases."""
