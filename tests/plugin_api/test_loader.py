"""Finding plugins: by metadata alone, kept in a cache that is never out of date and never gets in the way."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.plugin_api.loader import PluginEntry, explain_hook_error, find_plugins, find_provider_entries, list_hook_names
from tests.third_party_plugins import install, install_provider


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A folder of packages that comes before all others."""
    folder = tmp_path / "packages"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "plugins.json"


def forge(cache: Path, **changes: object) -> None:
    """Change what the cache holds, so that it shows whether it is read."""
    cache.write_text(json.dumps(json.loads(cache.read_text()) | changes))


def test_providers_are_found_by_name_in_order_with_their_distribution(packages: Path) -> None:
    install(packages, "many", {"zeta": "many:z", "alpha": "many:a"}, {})
    install(packages, "one", {"mid": "one.inner:thing.part"}, {})
    claims = find_provider_entries(None)
    assert list(claims) == sorted(claims)
    assert claims["alpha"] == (PluginEntry("alpha", "many:a", "many"),)
    assert claims["mid"] == (PluginEntry("mid", "one.inner:thing.part", "one"),)
    assert {claims[name][0].distribution for name in ("demo", "openrouter")} == {"ask-gents"}


def test_finding_imports_no_plugin(packages: Path) -> None:
    install_provider(packages, "tripwire", "raise RuntimeError('imported')")
    assert "tripwire" in find_provider_entries(None)
    assert "ask_tripwire" not in sys.modules


def test_other_groups_of_entry_points_are_left_alone(packages: Path) -> None:
    install(packages, "plain", {}, {})
    (packages / "plain-1.0.dist-info/entry_points.txt").write_text("[console_scripts]\nplain = plain:main\n")
    assert "plain" not in find_provider_entries(None)


def test_tools_are_found_by_distribution_beside_providers_in_one_cache(packages: Path, cache: Path) -> None:
    install(packages, "tools-b", {"z": "one", "a": "two:f [extra]"}, {}, "ask.tools")
    install(packages, "tools-a", {"z": "three"}, {}, "ask.tools")
    for found in (find_plugins(None), find_plugins(cache), find_plugins(cache)):
        assert found.providers == find_provider_entries(None)
        assert list(found.tools) == ["tools-a", "tools-b"]
        assert found.tools["tools-b"] == (
            PluginEntry("a", "two:f [extra]", "tools-b"),
            PluginEntry("z", "one", "tools-b"),
        )
    forge(cache, tools=[["only", "in:cache", "kept"]])
    assert find_plugins(cache).tools == {"kept": (PluginEntry("only", "in:cache", "kept"),)}


def test_what_an_older_ask_kept_is_read_anew(packages: Path, cache: Path) -> None:
    install(packages, "tools", {"z": "one"}, {}, "ask.tools")
    find_plugins(cache)
    kept = json.loads(cache.read_text())
    del kept["tools"]
    cache.write_text(json.dumps(kept))
    assert list(find_plugins(cache).tools) == ["tools"]


def test_two_distributions_with_one_name_are_both_told(packages: Path) -> None:
    install(packages, "one", {"twice": "one:p"}, {})
    install(packages, "other", {"twice": "other:p"}, {})
    assert [claim.distribution for claim in find_provider_entries(None)["twice"]] == ["one", "other"]


def test_of_a_distribution_that_is_installed_twice_the_first_counts(packages: Path, tmp_path: Path) -> None:
    install(packages, "same", {"same": "new:p"}, {})
    sys.path.append(str(install(tmp_path / "later", "same", {"same": "old:p"}, {})))
    try:
        assert [claim.target for claim in find_provider_entries(None)["same"]] == ["new:p"]
    finally:
        sys.path.remove(str(tmp_path / "later"))


def test_what_was_found_is_kept_and_read_instead(cache: Path) -> None:
    found = find_provider_entries(cache)
    assert find_provider_entries(cache) == found
    forge(cache, rows=[["only", "in:cache", "kept"]])
    assert find_provider_entries(cache) == {"only": (PluginEntry("only", "in:cache", "kept"),)}


def test_what_is_installed_and_removed_later_is_seen_at_once(cache: Path, packages: Path) -> None:
    assert "new" not in find_provider_entries(cache)
    install_provider(packages, "new")
    assert "new" in find_provider_entries(cache)
    shutil.rmtree(packages / "ask_new-1.0.dist-info")
    assert "new" not in find_provider_entries(cache)


def test_what_another_python_kept_is_not_believed(cache: Path) -> None:
    find_provider_entries(cache)
    stamp = json.loads(cache.read_text())["stamp"]
    forge(cache, stamp=["/other/python", *stamp[1:]], rows=[])
    assert "demo" in find_provider_entries(cache)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"stamp": 1}', "\0\xff"])
def test_a_spoilt_cache_is_made_anew(cache: Path, content: str) -> None:
    cache.parent.mkdir()
    cache.write_bytes(content.encode("latin-1"))
    assert "demo" in find_provider_entries(cache)
    assert json.loads(cache.read_text())["rows"]


@pytest.mark.parametrize("rows", [None, 5, [5], [["name"]], "text", {"a": 1}, [["a", "b", "c", "d"]], [[1, 2, 3]]])
def test_rows_that_are_none_are_made_anew(cache: Path, rows: object) -> None:
    find_provider_entries(cache)
    forge(cache, rows=rows)
    assert "demo" in find_provider_entries(cache)


def test_a_cache_that_cannot_be_written_or_read_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.json").mkdir()
    for cache in (tmp_path / "file" / "plugins.json", tmp_path / "folder.json"):
        assert "demo" in find_provider_entries(cache)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.json"]


@pytest.mark.parametrize("content", [b"[ask.providers]\nno equals sign\n", b"\xff\xfe[ask.providers]\n\x80 = x:y\n"])
def test_a_broken_distribution_does_not_hide_the_others(packages: Path, content: bytes) -> None:
    install_provider(packages, "good")
    install(packages, "bad", {}, {})
    (packages / "bad-1.0.dist-info/entry_points.txt").write_bytes(content)
    assert {"good", "demo"} <= set(find_provider_entries(None))


def test_what_is_left_of_an_uninstalled_distribution_does_not_hide_the_others(packages: Path) -> None:
    install_provider(packages, "good")
    for name in ("left", "over"):
        install(packages, name, {"same": "one:p"}, {})
        (packages / f"{name}-1.0.dist-info/METADATA").unlink()
    assert {"good", "demo"} <= set(find_provider_entries(None))


@pytest.mark.parametrize("hook", list_hook_names())
def test_a_misspelt_hook_is_told_with_the_one_that_was_meant(hook: str) -> None:
    misspelt = hook[:-2] + hook[-1]
    told = explain_hook_error(f"unknown hook {misspelt!r} in plugin <object>")
    assert misspelt in told
    assert hook in told
