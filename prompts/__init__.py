"""The prompts that come with `ask`, as text."""
