"""Readers of messages: Internet mail and Outlook."""
