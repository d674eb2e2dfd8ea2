"""Shows a run: its answer on standard output, everything else on standard error."""
