"""The completion scripts for bash, zsh and fish, which travel with the program."""
