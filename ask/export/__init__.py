"""Saved conversations and usage as text, Markdown, HTML and charts."""
