"""Traces: spans of runs, model requests and tool calls, sent to a collector with OpenTelemetry."""
