"""What `ask init` prints for bash, zsh and fish, which travels with the program."""
