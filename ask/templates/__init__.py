"""Named prompts: their files, what stands in them, and how placeholders are filled in."""
