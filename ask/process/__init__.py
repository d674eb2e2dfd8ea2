"""Processes that ask starts: how they end, and how it talks to workers."""
