"""docs/traces.md: its attributes are those that spans have."""

from __future__ import annotations

from pathlib import Path

from tests import wire
from tests.doc_pages import find_code_spans
from tests.model_server import ModelServer
from tests.program import Home
from tests.traces.bench import TraceBench
from tests.traces.collector import Collector

PAGE = (Path(__file__).parents[1] / "docs" / "traces.md").read_text()


def test_all_attributes_are_documented(home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "exit 1"})), wire.says("Done."))
    with Collector() as collector:
        bench = TraceBench(home, server, collector)
        bench.home.configure("trace_content = true\n")
        bench.ask("-o", "temperature=0.5", "go")
    sent = {name.removeprefix("gen_ai.") for span in collector.spans for name in span.attributes}
    assert "tool.call.result" in sent
    assert sent <= {name.removeprefix("gen_ai.") for name in find_code_spans(PAGE)}
