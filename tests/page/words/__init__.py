"""The words of the page: their list, their translations, and a search for words that cannot be translated."""
