"""The types of the hook `provider_batch`, for plugin authors."""

from ask.plugin_api.batches import Batch, BatchApi, BatchPage, BatchRequest, BatchResult, ResultsRequest

__all__ = ["Batch", "BatchApi", "BatchPage", "BatchRequest", "BatchResult", "ResultsRequest"]
