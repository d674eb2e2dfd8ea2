"""Tests against other people's software, run by `make test-real` but not by `make test` or CI."""
