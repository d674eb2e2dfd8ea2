"""The text and files that accompany a prompt."""
