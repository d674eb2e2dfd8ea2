"""JSON Schemas for `--schema`: parsing them, in full or in the short form, and validating answers against them."""
