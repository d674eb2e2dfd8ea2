"""Templates: finding and parsing their files, and filling in placeholders."""
