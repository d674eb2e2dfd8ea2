"""What files were before a run changed them: `keeper` keeps it, `records` reads it, `restore` puts it back."""
