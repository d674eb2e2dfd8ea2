"""The providers that come with `ask`, one file each; they use nothing that a stranger's provider could not."""
