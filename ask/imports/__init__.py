"""The data of other programs, in the form in which `ask import` adds it: llm and aichat."""
