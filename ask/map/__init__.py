"""`ask map`: one prompt over many rows, with a ledger from which an interrupted job continues."""
