"""Tools from Python functions, of installed packages or of the user."""
