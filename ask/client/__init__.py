"""The client for provider APIs: HTTP, retries, stream formats, error classification and the models cache."""
