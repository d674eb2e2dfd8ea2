# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for `provider_batch`: what can be checked without knowing the service's responses."""

from __future__ import annotations

import json
from typing import Any

from ask.batches import Batch, BatchApi, BatchRequest
from ask.testing.base import ContractBase
from ask.testing.conversation import KEY
from ask.testing.hook_guard import guard_hook

TAG = "ask-0123456789abcdef"
UNEXPECTED_VALUES: tuple[Any, ...] = (None, [], {}, "x", {"id": None}, {"data": [None]}, {"results": [{}]})


class BatchTests(ContractBase):
    """Tests of a batch API. They pass for a provider without one."""

    def test_batch_requests_contain_the_chat_requests_and_the_key(self) -> None:
        api = self.get_batch_api()
        if api is None:
            return
        built = self.build(stream=False)
        assert built.body is not None, "a provider with a batch API sends JSON"
        requests = [BatchRequest(f"{TAG}-{number}", built.path, built.body) for number in range(2)]
        upload = api.build_upload_request(requests, TAG, KEY)
        created = [upload] if upload else []
        created.append(api.build_create_request(requests, TAG, "file-1" if upload else "", KEY))
        sent = b"".join(request.content or json.dumps(request.body).encode() for request in created)
        for request in requests:
            assert request.custom_id.encode() in sent, "each request is sent with its custom_id"
        others = [api.build_poll_request("batch-1", KEY), api.build_list_request("", KEY)]
        others += [one.request for one in api.build_results_requests(Batch("batch-1", is_complete=True), KEY)]
        others += filter(None, [api.build_cancel_request("batch-1", KEY)])
        for http_request in (*created, *others):
            assert KEY in f"{http_request.path} {http_request.headers}", "each batch request contains the key"
        assert api.max_requests > 0
        assert api.max_bytes > 0

    def test_unexpected_batch_responses_raise_nothing(self) -> None:
        api = self.get_batch_api()
        if api is None:
            return
        for value in UNEXPECTED_VALUES:
            api.parse_batch(value)
            api.parse_list(value)
            api.parse_results(value)

    def get_batch_api(self) -> BatchApi | None:
        """Return the provider's batch API, which checks the types of its results."""
        with guard_hook("provider_batch"):
            return self.loaded.get_batch_api()
