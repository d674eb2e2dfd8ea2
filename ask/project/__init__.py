"""Instructions from files: a project's AGENTS.md and Agent Skills, and which projects the user trusts."""
