"""The documentation as a site: it is built without warnings, and no page is wider than a phone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
PHONE_WIDTH = 390
MEASURE = """
<script>
    onload = () => {
        const frames = [...document.querySelectorAll("iframe")];
        document.title = frames.map(frame => frame.contentDocument.documentElement.scrollWidth).join(" ");
    };
</script>
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=300)
    return folder


def test_every_page_is_in_the_site(site: Path) -> None:
    for name in PAGES:
        assert (site / ("index.html" if name == "index" else f"{name}/index.html")).exists()
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert {name for name in PAGES if f"{name}.md" not in navigation} == set()


def test_every_code_block_is_rendered(site: Path) -> None:
    for page in site.rglob("index.html"):
        assert not re.search(r"<(?:p|code)>```", page.read_text()), page


@pytest.mark.needs("chromium")
def test_no_page_is_wider_than_a_phone(site: Path) -> None:
    pages = ["index.html" if name == "index" else f"{name}/index.html" for name in PAGES]
    frames = "".join(f'<iframe src="{page}" width="{PHONE_WIDTH}" height="800"></iframe>' for page in pages)
    (site / "all.html").write_text(frames + MEASURE)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--virtual-time-budget=20000", "--dump-dom", (site / "all.html").as_uri()]
    html = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    title = re.search(r"<title>([\d ]+)</title>", html)
    assert title, html
    widths = dict(zip(PAGES, map(int, title[1].split()), strict=True))
    assert {name for name, width in widths.items() if width > PHONE_WIDTH} == set()
