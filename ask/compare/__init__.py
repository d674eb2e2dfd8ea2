"""`ask compare`: one question for several models, and the views of their answers."""
