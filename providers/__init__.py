"""The built-in providers, one module each; they use only what third-party providers can use too."""
