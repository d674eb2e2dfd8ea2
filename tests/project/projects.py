"""Builds git repositories with instructions and skills, and reads the system prompts that are sent."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.model_server import ModelServer

IDENTITY = ("-c", "user.name=Me", "-c", "user.email=me@example.com")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Change")
    return git(folder, "rev-parse", "HEAD")


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def write(file: Path, text: str | bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def write_skill(folder: Path, description: str = "Reads PDF files.", body: str = "Use pdftotext.") -> Path:
    return write(folder / "SKILL.md", f"---\nname: {folder.name}\ndescription: {description}\n---\n{body}\n")


def read_system_prompts(server: ModelServer) -> list[str]:
    sent = [request.json for request in server.requests if request.method == "POST"]
    return [body["messages"][0]["content"] for body in sent]
