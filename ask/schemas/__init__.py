"""JSON Schemas that an answer must fit: written in short or in full, and the check of an answer against them."""
