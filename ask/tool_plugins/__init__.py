"""Tools that others wrote: plain Python functions, from installed packages or files, run in processes of their own."""
