"""One run: the request, the model, the tools, and the tool loop."""
