"""Tests against software that other people wrote. `make test-real` runs them; `make test` and CI do not."""
