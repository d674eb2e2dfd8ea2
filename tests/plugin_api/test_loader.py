"""Plugin discovery from package metadata, and its cache."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.plugin_api.loader import PluginEntry, explain_hook_error, find_plugins, list_hook_names
from tests.third_party_plugins import install, install_provider


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Path]:
    """A package folder at the start of `sys.path`."""
    folder = tmp_path / "packages"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "plugins.json"


def edit_cache(cache: Path, **changes: object) -> None:
    """Change the cache's content, to detect whether it is read."""
    cache.write_text(json.dumps(json.loads(cache.read_text()) | changes))


def test_providers_are_listed_in_order_with_their_distribution(packages: Path) -> None:
    install(packages, "many", {"zeta": "many:z", "alpha": "many:a"}, {})
    install(packages, "one", {"mid": "one.inner:thing.part"}, {})
    entries = find_plugins(None).providers
    assert list(entries) == sorted(entries)
    assert entries["alpha"] == (PluginEntry("alpha", "many:a", "many"),)
    assert entries["mid"] == (PluginEntry("mid", "one.inner:thing.part", "one"),)
    assert {entries[name][0].distribution for name in ("demo", "openrouter")} == {"ask-gents"}


def test_discovery_imports_no_plugin(packages: Path) -> None:
    install_provider(packages, "tripwire", "raise RuntimeError('imported')")
    assert "tripwire" in find_plugins(None).providers
    assert "ask_tripwire" not in sys.modules


def test_other_entry_point_groups_are_ignored(packages: Path) -> None:
    install(packages, "plain", {}, {})
    (packages / "plain-1.0.dist-info/entry_points.txt").write_text("[console_scripts]\nplain = plain:main\n")
    assert "plain" not in find_plugins(None).providers


def test_tools_are_listed_by_distribution_and_share_the_cache(packages: Path, cache: Path) -> None:
    install(packages, "tools-b", {"z": "one", "a": "two:f [extra]"}, {}, "ask.tools")
    install(packages, "tools-a", {"z": "three"}, {}, "ask.tools")
    for plugins in (find_plugins(None), find_plugins(cache), find_plugins(cache)):
        assert plugins.providers == find_plugins(None).providers
        assert list(plugins.tools) == ["tools-a", "tools-b"]
        assert plugins.tools["tools-b"] == (
            PluginEntry("a", "two:f [extra]", "tools-b"),
            PluginEntry("z", "one", "tools-b"),
        )
    edit_cache(cache, tools=[["only", "in:cache", "kept"]])
    assert find_plugins(cache).tools == {"kept": (PluginEntry("only", "in:cache", "kept"),)}


def test_cache_of_an_older_version_is_rebuilt(packages: Path, cache: Path) -> None:
    install(packages, "tools", {"z": "one"}, {}, "ask.tools")
    find_plugins(cache)
    cached = json.loads(cache.read_text())
    del cached["tools"]
    cache.write_text(json.dumps(cached))
    assert list(find_plugins(cache).tools) == ["tools"]


def test_two_distributions_with_the_same_provider_are_both_listed(packages: Path) -> None:
    install(packages, "one", {"twice": "one:p"}, {})
    install(packages, "other", {"twice": "other:p"}, {})
    assert [entry.distribution for entry in find_plugins(None).providers["twice"]] == ["one", "other"]


def test_first_of_two_copies_of_a_distribution_counts(packages: Path, tmp_path: Path) -> None:
    install(packages, "same", {"same": "new:p"}, {})
    sys.path.append(str(install(tmp_path / "later", "same", {"same": "old:p"}, {})))
    try:
        assert [entry.target for entry in find_plugins(None).providers["same"]] == ["new:p"]
    finally:
        sys.path.remove(str(tmp_path / "later"))


def test_result_is_cached(cache: Path) -> None:
    plugins = find_plugins(cache).providers
    assert find_plugins(cache).providers == plugins
    edit_cache(cache, rows=[["only", "in:cache", "kept"]])
    assert find_plugins(cache).providers == {"only": (PluginEntry("only", "in:cache", "kept"),)}


def test_installing_and_removing_a_plugin_updates_the_cache(cache: Path, packages: Path) -> None:
    assert "new" not in find_plugins(cache).providers
    install_provider(packages, "new")
    assert "new" in find_plugins(cache).providers
    shutil.rmtree(packages / "ask_new-1.0.dist-info")
    assert "new" not in find_plugins(cache).providers


def test_cache_of_another_python_is_ignored(cache: Path) -> None:
    find_plugins(cache)
    stamp = json.loads(cache.read_text())["stamp"]
    edit_cache(cache, stamp=["/other/python", *stamp[1:]], rows=[])
    assert "demo" in find_plugins(cache).providers


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"stamp": 1}', "\0\xff"])
def test_damaged_cache_is_rebuilt(cache: Path, content: str) -> None:
    cache.parent.mkdir()
    cache.write_bytes(content.encode("latin-1"))
    assert "demo" in find_plugins(cache).providers
    assert json.loads(cache.read_text())["rows"]


@pytest.mark.parametrize("rows", [None, 5, [5], [["name"]], "text", {"a": 1}, [["a", "b", "c", "d"]]])
def test_cache_with_invalid_rows_is_rebuilt(cache: Path, rows: object) -> None:
    find_plugins(cache)
    edit_cache(cache, rows=rows)
    assert "demo" in find_plugins(cache).providers


def test_unusable_cache_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.json").mkdir()
    for cache in (tmp_path / "file" / "plugins.json", tmp_path / "folder.json"):
        assert "demo" in find_plugins(cache).providers
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.json"]


@pytest.mark.parametrize("content", [b"[ask.providers]\nno equals sign\n", b"\xff\xfe[ask.providers]\n\x80 = x:y\n"])
def test_a_broken_distribution_does_not_hide_the_others(packages: Path, content: bytes) -> None:
    install_provider(packages, "good")
    install(packages, "bad", {}, {})
    (packages / "bad-1.0.dist-info/entry_points.txt").write_bytes(content)
    assert {"good", "demo"} <= set(find_plugins(None).providers)


def test_remains_of_an_uninstalled_distribution_do_not_hide_the_others(packages: Path) -> None:
    install_provider(packages, "good")
    for name in ("left", "over"):
        install(packages, name, {"same": "one:p"}, {})
        (packages / f"{name}-1.0.dist-info/METADATA").unlink()
    assert {"good", "demo"} <= set(find_plugins(None).providers)


@pytest.mark.parametrize("hook", list_hook_names())
def test_misspelled_hook_is_reported_with_a_suggestion(hook: str) -> None:
    misspelled = hook[:-2] + hook[-1]
    explanation = explain_hook_error(f"unknown hook {misspelled!r} in plugin <object>")
    assert misspelled in explanation
    assert hook in explanation
