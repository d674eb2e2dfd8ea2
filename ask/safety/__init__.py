"""What keeps a user safe from a model: the decision about each call, the human, and the log."""
