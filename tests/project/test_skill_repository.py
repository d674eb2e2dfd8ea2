"""Repositories with skills: links in them, and limits of what git fetches."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.inputs.git import GitError, GitNetwork, run_git
from ask.project.skill_repository import is_link_inside
from tests.project.projects import make_repository, write

FILES = {"SKILL.md", "scripts/a.sh", "scripts/more/b.sh"}
LINKS = {"link": "scripts", "scripts/up": "..", "out": "../.."}
PARTS = st.sampled_from(["", ".", "..", "scripts", "more", "a.sh", "link", "up", "out", "SKILL.md", "missing"])
TARGETS = st.lists(PARTS, min_size=1, max_size=6).map("/".join).filter(bool)
PLACES = st.sampled_from(["new", "scripts/new", "scripts/more/new"])


@pytest.mark.hypothesis
@given(target=TARGETS, place=PLACES)
def test_an_accepted_link_leads_to_a_file_of_the_skill(target: str, place: str) -> None:
    with TemporaryDirectory() as parent:
        skill = Path(parent, "skill")
        for name in FILES:
            write(skill / name, "x")
        for name, link_target in LINKS.items():
            (skill / name).symlink_to(link_target)
        (skill / place).symlink_to(target)
        if is_link_inside(place, target, FILES):
            real = Path(os.path.realpath(skill / place, strict=True))
            assert real.is_relative_to(os.path.realpath(skill))
            assert real != Path(os.path.realpath(skill))


@pytest.mark.parametrize(
    ("place", "target"), [("new", "scripts/a.sh"), ("scripts/new", "../SKILL.md"), ("new", "scripts/more/")]
)
def test_links_between_files_of_a_skill_are_accepted(place: str, target: str) -> None:
    assert is_link_inside(place, target, FILES)


@pytest.mark.slow
def test_git_stops_at_the_limits_of_what_it_may_fetch(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    write(source / "data", os.urandom(3_000_000))
    environment = dict(os.environ)
    identity = ("-c", "user.name=Me", "-c", "user.email=me@example.com")
    run_git(source, environment, "add", "data")
    run_git(source, environment, *identity, "commit", "-q", "-m", "One")

    def fetch(folder: Path, protocols: str, seconds: float, size: int) -> bytes:
        arguments = ("fetch", "--depth=1", f"file://{source}", "HEAD")
        settings = {"fetch.unpackLimit": "1"}
        network = GitNetwork(protocols, seconds, size)
        return run_git(folder, environment, *arguments, settings=settings, network=network)

    limits = (("https", 60, 10_000_000), ("file", 0, 10_000_000), ("file", 60, 1_000_000))
    for number, (protocols, seconds, size) in enumerate(limits):
        folder = make_repository(tmp_path / f"folder{number}")  # a killed git leaves its locks behind
        with pytest.raises(GitError):
            fetch(folder, protocols, seconds, size)
        assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 2_000_000
    folder = make_repository(tmp_path / "folder")
    fetch(folder, "file", 60, 10_000_000)
    with pytest.raises(GitError):
        run_git(folder, environment, "fetch", f"file://{source}", "HEAD")
