"""Tools defined by Python functions in installed packages or in the user's files."""
