"""Protected paths, placeholders and hidden files in the folders that a run may write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import zlib
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from ask.config.symbolic_links import read_changeable_folders, resolve_links
from ask.errors import FileError, SafetyError
from ask.safety import folder_scan
from ask.safety.folder_scan import (
    MAX_SCANNED_ENTRIES,
    FolderScan,
    find_private_paths,
)
from ask.safety.protected_paths import PROTECTED_NAMES, ProtectedPaths
from ask.safety.scan_record import ScanRecord, forget_paths, read_scan_record, write_scan_record
from tests.safety.scanned_folders import NOTHING_BEFORE, Folders

# Names


def test_only_git_gets_a_placeholder_for_a_user_without_other_programs(folders: Folders) -> None:
    assert folders.scan() == {"work/.git"}
    assert folders.placeholders == {"work/.git": True}


def test_a_missing_name_gets_a_placeholder_if_the_user_has_its_program(folders: Folders) -> None:
    for name in ("home/.claude.json", "home/.config/JetBrains/x", "home/.codex/x"):
        folders.write(name)
    assert folders.scan() == {f"work/{name}" for name in (".git", ".claude", ".idea", ".codex")}


def test_xdg_config_home_is_checked_for_programs(folders: Folders) -> None:
    folders.write("settings/zed/x")
    assert folders.scan(XDG_CONFIG_HOME=str(folders.base / "settings")) == {"work/.git", "work/.zed"}


@pytest.mark.parametrize(("text", "has_placeholder"), [("[whitelist]\nprefix = ['/x']\n", True), ("[global]\n", False)])
def test_envrc_gets_a_placeholder_only_with_a_direnv_whitelist(
    folders: Folders, text: str, has_placeholder: bool
) -> None:
    folders.write("home/.config/direnv/direnv.toml", text)
    assert ("work/.envrc" in folders.scan()) is has_placeholder
    assert folders.placeholders.get("work/.envrc") is (True if has_placeholder else None), (
        "git status shows empty files, but no folders"
    )


def test_files_that_direnv_has_loaded_are_protected(folders: Folders) -> None:
    names = (".envrc", ".envrc.local", ".env", "flake.nix", "flake.lock")
    paths = [*(folders.work / name for name in names), folders.write("outside.sh")]
    folders.write("work/.envrc")
    folders.write("work/flake.nix")
    for key in ("path", "Path"):  # versions of direnv differ
        watches = [{key: str(path), "modtime": 0, "exists": True} for path in paths]
        encoded = urlsafe_b64encode(zlib.compress(json.dumps(watches).encode())).decode()
        protected = {f"work/{name}" for name in (".git", ".envrc.local", ".env", "flake.nix", "flake.lock")}
        assert folders.scan(DIRENV_WATCHES=encoded) >= protected
        [warning] = folders.warnings
        assert warning.endswith("when they change: flake.nix (shown once)")
    for damaged in ("x", "e30=", urlsafe_b64encode(zlib.compress(b"[2]")).decode()):
        folders.scan(DIRENV_WATCHES=damaged)


@pytest.mark.parametrize("is_file", [False, True])
def test_a_folder_that_mise_trusts_gets_placeholders(folders: Folders, is_file: bool) -> None:
    folders.write("work/sub/mise.toml")
    assert folders.scan() == {"work/.git", "work/sub/mise.toml"}
    link = folders.base / "home/.local/state/mise/trusted-configs/work-sub-1"
    link.parent.mkdir(parents=True)
    link.symlink_to(folders.work / ("sub/mise.toml" if is_file else "sub"))
    names = {"mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", ".mise", "mise", ".config"}
    assert folders.scan() == {"work/.git", "work/sub/.tool-versions", *(f"work/sub/{name}" for name in names)}
    assert False not in folders.placeholders.values(), "git status shows empty files, but no folders"


def test_a_folder_gets_placeholders_if_mise_trusts_all_folders_in_another_one(folders: Folders) -> None:
    folders.write("home/.config/mise/config.toml", '[settings]\ntrusted_config_paths = ["~"]\n')
    assert {"work/mise.local.toml", "work/.tool-versions"} <= folders.scan()


def test_files_that_lefthook_reads_are_protected_if_a_hook_runs_it(folders: Folders) -> None:
    folders.git("init", "-q")
    for name in ("lefthook.toml", ".config/lefthook.json", "lefthooks/x"):
        folders.write(f"work/{name}")
    (folders.work / "loop").symlink_to("loop")
    hook = folders.work / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexec something\n")
    assert folders.scan() == {"work/.git"}
    hook.write_text('#!/bin/sh\nlefthook run "pre-commit" "$@"\n')
    suffixes = ("yml", "yaml", "json", "jsonc", "toml")
    local_files = {
        f"work/{name}-local.{suffix}" for name in ("lefthook", ".lefthook", ".config/lefthook") for suffix in suffixes
    }
    assert folders.scan() == {"work/.git", "work/lefthook.toml", "work/.config/lefthook.json", *local_files}
    files = [name for name, is_folder in folders.placeholders.items() if not is_folder]
    assert files == ["work/lefthook-local.yml"], "git status shows empty files; lefthook fails if this one is a folder"


def test_a_missing_configuration_of_pre_commit_gets_a_placeholder_if_a_hook_reads_it(folders: Folders) -> None:
    folders.git("init", "-q")
    hook = folders.work / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n# pre-commit\n")
    assert folders.scan() == {"work/.git"}
    hook.write_text("#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n")
    assert folders.scan() == {"work/.git", "work/.pre-commit-config.yaml"}
    assert folders.placeholders["work/.pre-commit-config.yaml"] is True, "git status does not show a folder"
    hook.write_text("#!/bin/sh\n# File generated by prek: https://github.com/j178/prek\n")
    names = (".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml")
    folders.write("work/sub/prek.toml")  # which prek runs, too, if there is a configuration in the top folder
    assert folders.scan() == {"work/.git", "work/sub/prek.toml", *(f"work/{name}" for name in names)}


def test_files_of_opencode_get_empty_files_as_placeholders(folders: Folders) -> None:
    folders.write("home/.config/opencode/opencode.json")
    assert {"work/.opencode", "work/opencode.json", "work/opencode.jsonc"} <= folders.scan()
    assert folders.placeholders["work/.opencode"] is True
    assert folders.placeholders["work/opencode.json"] is False, "opencode fails if it is a folder"


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", [entry.name.replace("*", "my") for entry in PROTECTED_NAMES])
def test_every_protected_name_is_read_only_wherever_it_exists(folders: Folders, name: str) -> None:
    for folder in ("work", "work/a/b", "work/node_modules/x"):
        folders.write(f"{folder}/{name}")
    protected = folders.scan()
    for folder in ("work", "work/a/b", "work/node_modules/x"):
        assert f"{folder}/{name}" in protected | folders.hidden


@pytest.mark.slow_after_first
@pytest.mark.parametrize("name", [entry.name.replace("*", "my") for entry in PROTECTED_NAMES])
def test_a_link_with_a_protected_name_in_the_top_folder_is_refused(folders: Folders, name: str) -> None:
    (folders.work / name).symlink_to("elsewhere")
    with pytest.raises(SafetyError, match="is a link"):
        folders.scan()


def test_a_link_in_a_subfolder_makes_the_subfolder_read_only_with_a_warning(folders: Folders) -> None:
    folders.write("work/a/b/x")
    (folders.work / "a/.claude").symlink_to("../shared")
    assert folders.scan() == {"work/.git", "work/a", "work/shared"}
    assert "work/a is read-only in this run" in folders.warnings[0]


def test_targets_of_links_in_a_protected_folder_are_protected(folders: Folders) -> None:
    folders.write("work/skills/one/x")
    folders.write("work/.claude/x")
    (folders.work / ".claude/skills").symlink_to("../skills/one")
    assert folders.scan() == {"work/.git", "work/.claude", "work/skills/one"}


def test_an_empty_folder_with_a_protected_name_is_treated_as_a_placeholder(folders: Folders) -> None:
    (folders.work / "sub/.git").mkdir(parents=True)
    (folders.work / ".vscode").mkdir()
    assert folders.scan() == {"work/.git", "work/sub/.git", "work/.vscode"}
    assert folders.placeholders == {"work/.git": True, "work/sub/.git": True, "work/.vscode": True}


def test_protected_paths_stay_protected(folders: Folders) -> None:
    folders.write("work/a/.vscode/x")
    folders.write("work/b.env")
    folders.scan()
    before = folders.filesystem
    (folders.work / "a/.vscode").rename(folders.work / "a/other")
    (folders.work / "b.env").unlink()
    assert folders.scan(before=before) == {"work/.git"}
    (folders.work / "a/.vscode").mkdir()
    (folders.work / "b.env").touch()
    assert folders.scan(before=before) == {"work/.git", "work/a/.vscode"}
    assert folders.hidden == {"work/b.env"}


def test_folders_on_path_are_protected_or_get_a_placeholder(folders: Folders) -> None:
    folders.write("work/bin/tool")
    path = f"/usr/bin:{folders.work}/bin:node_modules/.bin:{folders.base}/elsewhere"
    assert folders.scan(PATH=path) == {"work/.git", "work/bin", "work/node_modules"}
    assert folders.warnings == []


def test_a_tilde_on_path_is_the_home_directory_as_in_bash(folders: Folders) -> None:
    tool = folders.write("home/project/tools/hello", "#!/bin/sh\necho found")
    tool.chmod(0o755)
    environment = {"PATH": "~/project/tools:/usr/bin:/bin", "HOME": str(folders.home)}
    assert subprocess.check_output(["bash", "-c", "hello"], cwd="/", env=environment) == b"found\n"
    assert folders.scan("home/project", NOTHING_BEFORE, **environment) == {"home/project/.git", "home/project/tools"}
    folders.write("home/programs/x")
    (folders.home / "programs/tool").symlink_to(folders.write("home/project/dist/tool"))
    protected = folders.scan("home/project", NOTHING_BEFORE, **{**environment, "PATH": "~/programs:/usr/bin"})
    assert protected == {"home/project/.git", "home/project/dist/tool"}


@pytest.mark.parametrize("variable", ["PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"])
@pytest.mark.parametrize("prefix", ["{}/.cache/python", ".cache/python"])
def test_the_folders_of_modules_for_every_python_are_protected(folders: Folders, prefix: str, variable: str) -> None:
    prefix = prefix.format(folders.work)
    assert folders.scan("work", NOTHING_BEFORE, **{variable: prefix}) == {"work/.git", "work/.cache"}
    assert folders.scan("work", NOTHING_BEFORE, **{variable: ""}) == {"work/.git"}


@pytest.mark.parametrize("entry", ["", ".", "link"])
def test_unprotectable_path_entries_cause_a_warning(folders: Folders, entry: str) -> None:
    folders.write("elsewhere/x")
    (folders.work / "link").symlink_to("../elsewhere")
    assert folders.scan(PATH=f"/usr/bin:{entry}") == {"work/.git"}
    [warning] = folders.warnings
    assert "PATH contains it" in warning


@pytest.mark.slow
def test_a_large_folder_is_scanned_breadth_first_with_a_warning(folders: Folders) -> None:
    for name in ("work/z/.env", "work/.env", "work/z/deep/deeper/.env"):
        folders.write(name)
    for folder in range(5):
        folders.write(f"work/many/{folder}/x")
        for number in range(MAX_SCANNED_ENTRIES // 5):
            (folders.work / f"many/{folder}/{number}").touch()
    folders.scan()
    assert folders.hidden == {"work/.env", "work/z/.env"}
    assert "is too large" in folders.warnings[0]


def test_the_first_two_levels_are_scanned_completely_or_refused(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_scan, "MAX_TOP_ENTRIES", 30)
    monkeypatch.setattr(folder_scan, "MAX_SCANNED_ENTRIES", 1)
    for number in range(10):
        folders.write(f"work/{number}/x")
    folders.write("work/9/.env")
    folders.scan()
    assert folders.hidden == {"work/9/.env"}
    for number in range(20):
        folders.write(f"work/0/{number}")
    with pytest.raises(SafetyError, match="in another folder"):
        folders.scan()
    # Exactly as many entries as the limit leave none for the folders in the top folder.
    monkeypatch.setattr(folder_scan, "MAX_TOP_ENTRIES", len(os.listdir(folders.work)))
    with pytest.raises(SafetyError, match="in another folder"):
        folders.scan()


# Secrets


def test_files_with_secrets_are_hidden_everywhere(folders: Folders) -> None:
    hidden = (
        *(".env", ".env.local", ".ENV.production", "prod.env", ".envrc", ".env.d", "node_modules/x/.env", "a/test.env"),
        *(".vscode/.env", ".claude/deep/x.env", "lib/site-packages/.env", "environments/.env"),
        # Left by Emacs, Vim, nano, Kate and patch
        *("prod.env~", "prod.env.~1~", "#prod.env#", ".prod.env.swp", ".prod.env.un~", "prod.env.save"),
        *("prod.env.orig", "prod.env.bak", ".prod.env.kate-swp", "a/b.env.old"),
    )
    for name in hidden:
        folders.write(f"work/{name}/secret" if name == ".env.d" else f"work/{name}")
    for name in ("env", "environment.py", "a/env/x", "x.env.py", "env.bak", "x.env.swift"):
        folders.write(f"work/{name}")
    folders.scan()
    assert folders.hidden == {f"work/{name}" for name in hidden}


def test_a_virtual_environment_is_not_hidden_but_secrets_in_it_are(folders: Folders) -> None:
    for name in ("pyvenv.cfg", "lib/x", "etc/jupyter/x", "man/x", ".env"):
        folders.write(f"work/.env/{name}")
    folders.scan()
    assert folders.hidden == {"work/.env/.env"}


def test_targets_of_links_to_secrets_are_hidden_unless_they_are_the_folder(folders: Folders) -> None:
    folders.write("work/real")
    folders.write("work/conf/secret")
    folders.write("outside")
    for name, target in (("a", "real"), ("b", "conf"), ("c", "."), ("d", "../outside"), ("e", ".env.e"), ("f", "gone")):
        (folders.work / f".env.{name}").symlink_to(target)
    folders.scan()
    assert folders.hidden == {"work/real", "work/conf"}


def test_a_fifo_with_the_name_of_a_secret_is_hidden(folders: Folders) -> None:
    os.mkfifo(folders.work / ".env")
    folders.scan()
    assert folders.hidden == {"work/.env"}


def test_secrets_at_the_top_of_a_toolchain_are_hidden(folders: Folders) -> None:
    for name in ("bin/node", "lib/node_modules/x/x.js", ".env"):
        folders.write(f"home/node/{name}")
    folders.scan(PATH=f"/usr/bin:{folders.home}/node/bin")
    assert folders.hidden == {"home/node/.env"}


def test_private_paths_are_those_that_are_not_world_readable(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("group", 0o640), ("own", 0o600)):
        (tmp_path / name).touch(mode)
        (tmp_path / name).chmod(mode)
    for name, mode in (("public", 0o755), ("closed", 0o710)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inner").touch()
        (tmp_path / name / "inner").chmod(0o600)
        (tmp_path / name).chmod(mode)
    names = ("closed", "group", "own", "public/inner")
    assert sorted(find_private_paths(tmp_path)) == [tmp_path / name for name in names]


# What git uses

SPELLINGS = (
    "[core] hooksPath = hooks\n",
    "[core]\n\thooksPath = hooks ; c\n",
    "[core]\n\thooksPath = hooks # c\n",
    '[core]\n\thooksPath = "hooks"\n',
    '[core]\n\thooksPath = ho"ok"s\n',
    "[core]\n\thooksPath = ho\\\noks\n",
    "[CORE]\n\tHOOKSPATH=hooks\r\n",
    "[core]\n\thooksPath = other\n\thooksPath = hooks/../hooks/\n",
    '[includeIf "onbranch:nothing"]\n\tpath = ../conditional\n',
    '[includeIf "gitdir:/nowhere/"]\n\tpath = ~/conditional\n',
)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("exists", [True, False])
def test_the_hooks_folder_is_protected_in_any_spelling(folders: Folders, spelling: str, exists: bool) -> None:
    folders.git("init", "-q")
    for name in ("work/conditional", "home/conditional"):
        folders.write(name, "[core]\nhooksPath = hooks\n")
    with (folders.work / ".git/config").open("a") as config:
        config.write(spelling)
    if exists:
        folders.write("work/hooks/pre-commit")
    assert "work/hooks" in folders.scan()
    assert ("work/hooks" in folders.placeholders) is not exists
    assert folders.warnings == []


def test_the_users_git_configuration_applies_everywhere(folders: Folders) -> None:
    folders.write("home/.gitconfig", "[core]\nhooksPath = .githooks/all\n[include]\npath = ../work/shared\n")
    folders.git("init", "-q", "sub")
    protected = folders.scan()
    assert {"work/.githooks", "work/sub/.githooks", "work/shared"} <= protected
    assert folders.placeholders["work/shared"] is False, "git fails where an included file is a folder"


def test_targets_of_included_links_are_protected(folders: Folders) -> None:
    folders.git("init", "-q")
    folders.write("work/conf/real", "[include]\npath = further\n")
    (folders.work / "conf/link").symlink_to("real")
    folders.git("config", "include.path", "../conf/link")
    assert folders.scan() == {"work/.git", "work/conf"}


def test_targets_of_linked_hooks_are_protected(folders: Folders) -> None:
    folders.git("init", "-q")
    folders.write("work/scripts/pre-commit")
    (folders.work / ".git/hooks/pre-commit").symlink_to("../../scripts/pre-commit")
    (folders.work / ".git/hooks/pre-push").symlink_to("../../missing/pre-push")
    assert folders.scan() == {"work/.git", "work/scripts/pre-commit", "work/missing"}


def test_the_target_of_a_linked_hooks_folder_is_protected(folders: Folders) -> None:
    folders.git("init", "-q", "--template=")
    (folders.work / ".git/hooks").symlink_to("../githooks")
    assert folders.scan() == {"work/.git", "work/githooks"}


def test_the_enclosing_repository_is_protected(folders: Folders) -> None:
    folders.git("init", "-q")
    folders.git("config", "core.hooksPath", "sub/githooks")
    folders.git("config", "filter.x.clean", "sub/tools/clean %f")
    folders.write("work/sub/tools/clean")
    assert folders.scan("work/sub") == {"work/sub/.git", "work/sub/githooks", "work/sub/tools/clean"}


def test_a_repository_in_a_subfolder_is_protected(folders: Folders) -> None:
    folders.git("init", "-q", "--separate-git-dir=bare", "sub")
    folders.git("init", "-q", "--bare", "other.git")
    folders.write("work/broken/.git", "gitdir: ../missing")
    assert folders.scan() == {
        *("work/.git", "work/bare", "work/sub/.git", "work/other.git", "work/broken/.git", "work/missing"),
    }


def test_a_submodule_that_is_not_checked_out_gets_no_repository(folders: Folders) -> None:
    folders.git("init", "-q")
    for name in ("sub/empty", "sub/full", "sub/missing", "linked"):
        folders.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{name}")
    folders.git("update-index", "--split-index")
    (folders.work / "sub/empty").mkdir(parents=True)
    folders.write("work/sub/full/a b")
    (folders.work / "linked").symlink_to("sub/full")
    assert folders.scan() == {"work/.git", "work/sub/empty", "work/sub/full/.git", "work/sub/missing"}
    assert "linked is used by git and cannot be protected" in folders.warnings[0]
    assert folders.scan("work/sub") == {"work/sub/.git", "work/sub/empty", "work/sub/full/.git", "work/sub/missing"}


def test_a_named_pipe_in_place_of_an_index_is_not_read(folders: Folders) -> None:
    folders.git("init", "-q")
    os.mkfifo(folders.work / ".git/index")
    assert folders.scan() == {"work/.git"}


@pytest.mark.parametrize("folder", ["work/.git", "work/.git/hooks", "work/bare.git"])
def test_starting_in_a_repositorys_git_directory_is_refused(folders: Folders, folder: str) -> None:
    folders.git("init", "-q")
    folders.git("init", "-q", "--bare", "bare.git")
    with pytest.raises(SafetyError, match="belongs to the git repository"):
        folders.scan(folder)


def test_a_failing_git_causes_a_warning(folders: Folders) -> None:
    folders.git("init", "-q")
    folders.git("config", "core.hooksPath", "hooks")
    assert folders.scan() == {"work/.git", "work/hooks"}
    (folders.base / "data/safe/scans.json").unlink()
    with (folders.work / ".git/config").open("a") as config:
        config.write("[broken\n")
    assert folders.scan() == {"work/.git"}
    assert "git cannot report its configuration" in folders.warnings[0]


def test_hooks_in_the_top_folder_are_not_protected_with_a_warning(folders: Folders) -> None:
    folders.git("init", "-q")
    folders.git("config", "core.hooksPath", ".")
    assert folders.scan() == {"work/.git"}
    assert "is used by git and cannot be protected" in folders.warnings[0]


def test_a_scan_works_without_git(folders: Folders) -> None:
    folders.git("init", "-q")
    folders.git("config", "core.hooksPath", "hooks")
    folders.write("work/bin/git", "#!/bin/sh\ntouch ../ran\n").chmod(0o755)
    assert folders.scan(PATH=str(folders.work / "bin")) == {"work/.git", "work/bin"}
    assert not (folders.base / "ran").exists(), "a git of the project's own is not run"


def test_reading_the_git_configuration_runs_nothing(folders: Folders) -> None:
    folders.git("init", "-q")
    folders.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    program = folders.write("spy", f"#!/bin/sh\ntouch {folders.base}/ran\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "pager.config", "core.sshCommand", "alias.config", "alias.rev-parse"):
        folders.git("config", key, f"{'!' if key.startswith('alias') else ''}{program}")
    folders.scan()
    assert not (folders.base / "ran").exists()


@pytest.mark.parametrize(
    ("git", "config"),
    [
        (b"gitdir: \0x", b""),
        (b"gitdir: " + b"x/" * 3_000, b""),
        (b"gitdir: " + b"x" * 300, b""),
        (b"\xff\xfe", b""),
        (b"gitdir: .", b""),
        (b"gitdir: ../..", b""),
        (b"gitdir: bare", b"[core]\n hooksPath = \0\n hooksPath = \xff\n hooksPath = ~nobody/x\n hooksPath = ..\n"),
        (b"gitdir: bare", b"[core]\nhooksPath = .\nhooksPath = /\nhooksPath = x/../../y\n"),
    ],
)
def test_no_git_configuration_protects_the_top_folder(folders: Folders, git: bytes, config: bytes) -> None:
    for name in ("HEAD", "objects/x", "refs/x"):
        folders.write(f"work/sub/bare/{name}", "ref: refs/heads/x")
    (folders.work / "sub/.git").write_bytes(git)
    (folders.work / "sub/bare/config").write_bytes(config)
    protected = folders.scan()
    assert {"work/sub/bare", "work/sub"} & protected
    assert protected <= {"work/.git", "work/sub", "work/sub/.git", "work/sub/bare", "work/sub/x", "work/y"}
    assert folders.hidden == set()


@pytest.mark.slow
def test_repository_that_makes_git_wait_is_reported(folders: Folders) -> None:
    for name in ("HEAD", "objects/x", "refs/x"):
        folders.write(f"work/sub/bare/{name}", "ref: refs/heads/x")
    folders.write("work/sub/.git", "gitdir: bare")
    os.mkfifo(folders.work / "sub/bare/commondir")
    assert {"work/sub/.git", "work/sub/bare"} <= folders.scan()
    assert "no response within" in folders.warnings[0]


@pytest.mark.slow
def test_a_wrapper_of_git_that_hangs_is_killed_with_its_children(folders: Folders) -> None:
    git = folders.write("programs/git", f"#!/bin/sh\nsleep 60 &\necho $! >> {folders.base}/children\nwait\n")
    git.chmod(0o755)
    start_time = time.monotonic()
    folders.scan(PATH=str(git.parent))
    assert time.monotonic() - start_time < 10
    assert "no response within" in folders.warnings[0]
    for child in (folders.base / "children").read_text().split():
        status = Path(f"/proc/{child}/stat")
        assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


# Links


def test_links_are_resolved_like_realpath_and_reported(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "one").symlink_to("a/two")
    (tmp_path / "a/two").symlink_to(tmp_path / "a/b")
    (tmp_path / "loop").symlink_to("loop")
    target, links = resolve_links(tmp_path / "one/../b/./missing/x")
    assert (target, links) == (tmp_path / "a/b/missing/x", [tmp_path / "one", tmp_path / "a/two"])
    assert resolve_links(tmp_path / "loop/x")[1] == [tmp_path / "loop"]
    (tmp_path / "slashes").symlink_to(f"/{tmp_path}/loop")
    assert resolve_links(Path(f"/{tmp_path}/slashes"))[1] == [tmp_path / "slashes"]
    assert resolve_links(Path(f"/{tmp_path}/missing"))[0] == tmp_path / "missing"


@pytest.mark.parametrize("content", ["[]", '{"/x": {}}', '{"/x": 3}'])
def test_a_damaged_record_of_scans_is_an_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "scans.json").write_text(content)
    with pytest.raises(FileError):
        read_changeable_folders(tmp_path / "scans.json")


def test_a_scan_finds_the_repositories_that_git_finds(folders: Folders) -> None:
    (folders.work / "a/.git").mkdir(parents=True)
    for name in ("HEAD", "objects", "refs"):
        folders.write(f"work/b/{name}/x")
    scan = FolderScan([folders.work], ProtectedPaths([folders.work]))
    assert scan.scan(folders.work)
    assert set(scan.repositories) == {folders.work / "a", folders.work / "b"}


def test_paths_in_a_hidden_folder_are_not_hidden_again(folders: Folders) -> None:
    folders.write("work/conf/.env")
    folders.write("work/conf/.vscode/x")
    (folders.work / ".env.d").symlink_to("conf")
    assert folders.scan() == {"work/.git"}
    assert folders.hidden == {"work/conf"}


# Links to the folder


@pytest.mark.parametrize(
    "link",
    [
        *(".bashrc", ".zprofile", ".gitconfig", ".vimrc", ".tmux.conf", ".config/starship.toml", ".ssh/config"),
        *(".config/fish/config.fish", ".config/fish/conf.d/x.fish", ".config/systemd/user/x.service", "bin/x"),
        *(".local/bin/x", ".config/git/hooks/pre-commit", ".config/ask/templates/x.md"),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_targets_of_links_in_the_home_and_on_path_are_protected(folders: Folders, link: str, exists: bool) -> None:
    if exists:
        folders.write("work/files/target")
    (folders.home / link).parent.mkdir(parents=True, exist_ok=True)
    (folders.home / link).symlink_to(folders.work / "files/target")
    assert folders.scan() == {"work/.git", "work/files/target" if exists else "work/files"}


@pytest.mark.parametrize("name", [".qwen", ".qoder", ".factory", ".kiro"])
def test_targets_of_links_in_the_folders_of_agents_are_protected(folders: Folders, name: str) -> None:
    folders.write("work/dotfiles/settings.json")
    link = folders.home / name / ("settings/mcp.json" if name == ".kiro" else "settings.json")
    link.parent.mkdir(parents=True)
    link.symlink_to(folders.work / "dotfiles/settings.json")
    assert folders.scan() == {"work/.git", f"work/{name}", "work/dotfiles/settings.json"}


def test_startup_files_that_variables_name_are_protected(folders: Folders) -> None:
    for name in ("existing.sh", "new.sh", "sub/x"):
        folders.write(f"work/{name}")
    for value in (
        "existing.sh",
        "./existing.sh",
        f"{folders.work}/existing.sh",
        "$HOME/../work/existing.sh",
        "~/../work/existing.sh",
    ):
        assert folders.scan(BASH_ENV=value) == {"work/.git", "work/existing.sh"}, value
    assert folders.scan(ENV="existing.sh") == folders.scan(ENV="./existing.sh") == {"work/.git", "work/existing.sh"}
    for value in ("../elsewhere.sh", "$HOME/env.sh", "~/env.sh", "$MISSING/x", "$", ".", "sub", "production"):
        assert folders.scan(ENV=value) == {"work/.git"}, value
    assert folders.scan(GOENV="off") == {"work/.git"}
    assert folders.scan(BASH_ENV="missing.sh", STARSHIP_CONFIG="sub/x") == {
        "work/.git",
        "work/missing.sh",
        "work/sub/x",
    }
    assert folders.scan(KUBECONFIG="~/x:sub/x:/etc/x", OPENSSL_CONF=f"{folders.work}/new.sh") == {
        "work/.git",
        "work/new.sh",
        "work/sub/x",
    }
    assert folders.scan(CLAUDE_CONFIG_DIR="sub", PIP_CONFIG_FILE="new.sh") == {
        "work/.git",
        "work/new.sh",
        "work/sub",
    }
    folders.write("work/sub/agent.rb")
    assert folders.scan(NODE_OPTIONS="-r ./new.sh", JAVA_TOOL_OPTIONS="-javaagent:sub/x=a") == {
        "work/.git",
        "work/new.sh",
        "work/sub/x",
    }
    assert folders.scan(RUBYOPT=f"-W0 -r{folders.work}/sub/agent", PERL5OPT="-Mstrict") == {
        "work/.git",
        "work/sub/agent.rb",
    }
    assert folders.scan(VIMINIT="set nu | so existing.sh", LUA_INIT="@sub/x") == {
        "work/.git",
        "work/existing.sh",
        "work/sub/x",
    }
    for prefix in ("", "|", "||-"):
        assert folders.scan(LESSOPEN=f"{prefix}{folders.work}/sub/x %s") == {"work/.git", "work/sub/x"}, prefix
    folders.scan(LESSOPEN="||- /usr/bin/lesspipe %s", MANPAGER="sh -c 'col -bx | bat -l man -p'")
    assert not folders.warnings


PROGRAM_VARIABLES = (
    *("EDITOR", "KUBE_EDITOR", "SUDO_EDITOR", "HGEDITOR", "FCEDIT", "VISUAL", "PAGER", "SYSTEMD_PAGER", "DELTA_PAGER"),
    *("PSQL_PAGER", "SSH_ASKPASS", "SUDO_ASKPASS", "SVN_SSH", "RSYNC_RSH", "GIT_SSH_COMMAND", "FZF_CTRL_T_COMMAND"),
    *("FZF_DEFAULT_COMMAND", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"),
)
FILE_VARIABLES = (
    *("HGRCPATH", "JJ_CONFIG", "LG_CONFIG_FILE", "TIGRC_USER", "NIX_USER_CONF_FILES", "CONTAINERS_CONF"),
    *("WEZTERM_CONFIG_FILE", "ZELLIJ_CONFIG_DIR", "POSH_THEME", "FPATH", "BASH_COMPLETION_USER_FILE", "ZSH_CUSTOM"),
    *("HELM_PLUGINS", "PHPRC", "PHP_INI_SCAN_DIR", "R_ENVIRON_USER", "MISE_GLOBAL_CONFIG_FILE"),
)


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("variable", [*PROGRAM_VARIABLES, *FILE_VARIABLES])
def test_what_variables_of_programs_name_is_protected(folders: Folders, variable: str, exists: bool) -> None:
    if exists:
        folders.write("work/tools/x")
    environment = {variable: f"{folders.work}/tools/x"}
    assert folders.scan("work", NOTHING_BEFORE, **environment) == {
        "work/.git",
        "work/tools/x" if exists else "work/tools",
    }


def test_a_startup_hook_of_dotnet_is_protected_if_it_is_a_file(folders: Folders) -> None:
    hook = folders.write("work/tools/trace.dll")
    assert folders.scan(DOTNET_STARTUP_HOOKS=f"Trace.Agent:{hook}") == {"work/.git", "work/tools/trace.dll"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *(("KUBE_EDITOR", "code --wait"), ("FZF_DEFAULT_COMMAND", "fd --type f | sort"), ("DELTA_PAGER", "less -R")),
        *(("RSYNC_RSH", "ssh -p 22"), ("RUSTC_WRAPPER", "sccache"), ("HGRCPATH", "")),
        *(("DOTNET_STARTUP_HOOKS", "Trace.Agent"), ("FPATH", "/usr/share/zsh/functions:/opt/zsh"), ("ZSH", "x")),
        *(("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_GLOBAL", "")),
        *(("EDITOR", "emacsclient -c -a ''"), ("KUBE_EDITOR", "vim -c 'set ft=yaml'"), ("MANPAGER", "nvim +Man!")),
        *(("PSQL_PAGER", "pspg -X -b"), ("ALTERNATE_EDITOR", ""), ("SUDO_ASKPASS", "/usr/lib/ssh/ssh-askpass")),
        (
            "FZF_DEFAULT_COMMAND",
            "(git ls-tree -r --name-only HEAD || find . -path '*/.*' -prune -o -print) 2>/dev/null",
        ),
        ("FZF_CTRL_T_COMMAND", "rg --files --hidden --glob '!.git/*' | sed 's/^/> /'"),
        ("RSYNC_RSH", "ssh -i ~/.ssh/id_ed25519 -o StrictHostKeyChecking=accept-new"),
        *(("START_COMMAND", "npm start"), ("USE_SSH", "git@host:a/b.git"), ("EDITOR", "flatpak run org.vim.Vim")),
        *(("POSH_THEME", "atomic"), ("POSH_THEME", "https://example.com/theme.json")),
        ("FZF_PREVIEW_COMMAND", "[[ -d {} ]] && tree -C {} || bat {}"),  # of the user's own functions
    ],
)
def test_common_values_of_variables_protect_nothing(folders: Folders, variable: str, value: str) -> None:
    assert folders.scan("work", NOTHING_BEFORE, **{variable: value}) == {"work/.git"}
    assert folders.warnings == []


def test_links_in_the_folders_of_variables_are_protected(folders: Folders) -> None:
    names = ("zsh/.zshrc", "home/.config/fish/config.fish", "xdg/fish/config.fish")
    for name in names:
        target = folders.write(f"work/{name}")
        (folders.base / name).parent.mkdir(parents=True, exist_ok=True)
        (folders.base / name).symlink_to(target)
    folders.write("work/libexec/git-x")
    variables = {"ZDOTDIR": "zsh", "XDG_CONFIG_HOME": "xdg", "GIT_EXEC_PATH": "work/libexec"}
    found = folders.scan("work", NOTHING_BEFORE, **{name: f"{folders.base}/{path}" for name, path in variables.items()})
    assert found == {"work/.git", "work/libexec", *(f"work/{name}" for name in names)}


@pytest.mark.parametrize("link", [".vim", ".config/nvim", ".config"])
def test_a_linked_folder_is_protected(folders: Folders, link: str) -> None:
    folders.write("work/files/nvim/init.lua")
    (folders.home / link).parent.mkdir(parents=True, exist_ok=True)
    (folders.home / link).symlink_to("../work/files" if "/" not in link else "../../work/files")
    assert folders.scan() == {"work/.git", "work/files"}
    folders.scan("work/files")
    assert "cannot be protected" in folders.warnings[0]


def test_programs_linked_from_path_are_protected_through_other_links(folders: Folders) -> None:
    program = folders.write("work/dist/tool")
    folders.write("elsewhere/x")
    (folders.base / "elsewhere/second").symlink_to(program)
    (folders.base / "programs").mkdir()
    (folders.base / "programs/tool").symlink_to("../elsewhere/second")
    assert folders.scan() == {"work/.git"}
    assert folders.scan(PATH=f"/usr/bin:{folders.base}/programs") == {"work/.git", "work/dist/tool"}
    assert folders.warnings == []


def test_other_links_in_the_home_protect_nothing(folders: Folders) -> None:
    folders.write("work/files/x")
    (folders.home / "project").symlink_to(folders.work)
    (folders.home / "notes").symlink_to(folders.work / "files/x")
    assert folders.scan() == {"work/.git"}
    assert folders.warnings == []


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        *(("set exrc\n", True), ("set nocp exrc\n", True), ("se ex\n", True), ('" set exrc\n', False)),
        *(("setglobal exrc\n", True), ("setg ex\n", True), ("setl ex\n", True), ("let &g:exrc = 1\n", True)),
        *(('let x="a" | set exrc\n', True), ("set noexrc\n", False), ("edit ex\n", False)),
    ],
)
def test_vimrc_gets_a_placeholder_if_vim_would_read_it(folders: Folders, text: str, sets: bool) -> None:
    folders.write("home/.vim/vimrc", text)
    assert folders.scan() == {"work/.git", *(f"work/{name}" for name in (".vimrc", ".exrc", ".gvimrc") if sets)}


# The record of earlier scans


def test_folders_that_are_gone_leave_the_record(folders: Folders) -> None:
    for number in range(3):
        folders.write(f"work{number}/.env")
        folders.scan(f"work{number}")
        folders.write("other/.env")
        shutil.rmtree(folders.base / f"work{number}")
    folders.scan("other")
    record = json.loads((folders.base / "data/safe/scans.json").read_text())
    assert list(record) == [str(folders.base / "other")]
    assert record[str(folders.base / "other")]["hidden"] == [str(folders.base / "other/.env")]


@pytest.mark.slow
def test_the_record_of_a_folder_is_deleted_after_a_thousand_others(tmp_path: Path) -> None:
    state, *folders = (tmp_path / str(number) for number in range(1_002))
    for folder in (state, *folders):
        folder.mkdir()

    def record(*scanned: Path) -> None:
        write_scan_record(state, scanned, ScanRecord((), tuple(f"{folder}/secret" for folder in scanned), ()))

    first, *others, last = folders
    record(first)
    record(*others)
    assert read_scan_record(state, [first]).hidden == (f"{first}/secret",)
    record(last)
    assert read_scan_record(state, folders).hidden == tuple(f"{folder}/secret" for folder in (*others, last))


def test_a_path_is_forgotten_in_the_records_of_all_folders(tmp_path: Path) -> None:
    state, outer, inner = tmp_path / "state", tmp_path / "work", tmp_path / "work/sub"
    for folder in (state, outer, inner):
        folder.mkdir()
        write_scan_record(state, [folder], ScanRecord((), (f"{inner}/secret",), (f"{inner}/repository",)))
    assert len(forget_paths(state, inner)) == 2
    assert read_scan_record(state, [tmp_path]) == ScanRecord((), (), ())


def test_a_folder_whose_name_begins_like_another_has_its_own_record(folders: Folders) -> None:
    folders.write("work/link.env").unlink()
    secret = folders.write("work/secret")
    (folders.work / ".env").symlink_to(secret)
    folders.scan()
    folders.write("work-2/secret")
    folders.scan("work-2")
    assert folders.hidden == set()
    (folders.work / ".env").unlink()
    folders.scan()
    assert folders.hidden == {"work/secret"}
