"""Calls can fill a folder, or delete what says that a file is secret, so that the next run would not protect it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

import pytest

from tests.escapes.safe_runs import bash, run
from tests.safety.fake_host import TOKEN, FakeHost

pytestmark = pytest.mark.needs("bwrap")
HOOK = "backend/.git/hooks/pre-commit"
DEEP = "src/deep/er"
TASKS = f"{DEEP}/.vscode/tasks.json"
READ_AND_WRITE = (
    f"cat backend/.env {DEEP}/.env secrets/prod.txt; echo x > {HOOK}; echo x > backend/tools/hooks/pre-push; "
    f"echo x > {TASKS}"
)
MANY_REPOSITORIES = "for i in $(seq 260); do mkdir -p a/$i/objects a/$i/refs; echo ref: x > a/$i/HEAD; done"
ATTACKS = {
    "files at the top": 'python3 -c \'for i in range(20_500): open(f"{i}", "w")\'',
    "folders at the top": "python3 -c 'import os\nfor i in range(20_500): os.mkdir(f\"{i}\")'",
    "files below": 'mkdir -p a; cd a; python3 -c \'for i in range(20_500): open(f"{i}", "w")\'',
    "files beside": 'cd src/deep; python3 -c \'for i in range(20_500): open(f"{i}", "w")\'',
    "a deep chain": 'python3 -c \'import os\nfor i in range(40): os.mkdir("d" * 250); os.chdir("d" * 250)\'',
    "decoys": 'mkdir -p a; cd a; python3 -c \'for i in range(1_200): open(f"{i}.env", "w")\'',
    "protected names": "for i in $(seq 1500); do mkdir -p a/$i; echo x > a/$i/.gitattributes; done",
    "protected names beside": "cd backend; for i in $(seq 1500); do mkdir -p a/$i; echo x > a/$i/.gitattributes; done",
    "folders of secrets": "for i in $(seq 1500); do mkdir -p a/$i; echo x > a/$i/.env; done",
    "repositories": MANY_REPOSITORIES,
    "the link": "rm .env",
    "a node_modules": 'mkdir node_modules; cd node_modules; python3 -c \'for i in range(20_500): open(f"{i}", "w")\'',
}


@pytest.fixture(autouse=True)
def backend(host: FakeHost) -> None:
    """Create a nested repository with hooks outside `.git`, and secrets at several depths."""
    repository = host.work / "backend"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    subprocess.run(["git", "-C", str(repository), "config", "core.hooksPath", "tools/hooks"], check=True)
    for name in ("backend/tools/hooks/pre-commit", "backend/.env", f"{DEEP}/.env", TASKS, "secrets/prod.txt"):
        (host.work / name).parent.mkdir(parents=True, exist_ok=True)
        (host.work / name).write_text(TOKEN)
    (host.work / ".env").unlink(missing_ok=True)
    (host.work / ".env").symlink_to("secrets/prod.txt")
    host.change_owner()


def attack(host: FakeHost, name: str, options: Sequence[str]) -> tuple[int, str, bool]:
    """Run an attack in two runs; return the second one's exit code and output, and whether it placed a program."""
    first = run(host, bash(ATTACKS[name]), *options)
    assert first.result.code == 0, first.result.stderr
    second = run(host, bash(READ_AND_WRITE), *options)
    is_placed = any((host.work / path).exists() for path in (HOOK, "backend/tools/hooks/pre-push"))
    is_placed |= (host.work / TASKS).read_text() != TOKEN
    return second.result.code, "".join(second.outputs) + second.result.stderr, is_placed


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_no_call_makes_the_next_scan_miss_anything(host: FakeHost, name: str) -> None:
    code, output, is_placed = attack(host, name, ["--safe"])
    assert code in (0, 8), output
    assert TOKEN not in output
    assert not is_placed


@pytest.mark.slow
@pytest.mark.parametrize("decoys", ["5_100", "0"], ids=["decoys", "control"])
def test_no_call_makes_an_earlier_secret_forgotten(host: FakeHost, decoys: str) -> None:
    fill = (
        f'mkdir a; python3 -c \'for i in range({decoys}): open(f"a/{{i}}.env", "w")\';'
        'cd src/deep; python3 -c \'for i in range(20_500): open(f"{i}", "w")\''
    )
    for script in ("true", fill):
        assert run(host, bash(script), "--safe").result.code == 0
    for _ in range(2):
        later = run(host, bash(f"cat {DEEP}/.env"), "--safe")
        assert later.result.code == (0 if decoys == "0" else 8), later.result.stderr
        assert decoys == "0" or str(host.work / "a") in later.result.stderr.replace("\n", " ")
        assert TOKEN not in "".join(later.outputs)


@pytest.mark.slow
def test_no_call_makes_a_folder_of_secrets_a_virtual_environment(host: FakeHost) -> None:
    first = run(host, bash("mkdir -p .env.d/bin; touch .env.d/pyvenv.cfg .env.d/bin/python"), "--safe")
    assert first.result.code == 0, first.result.stderr
    (host.work / ".env.d/token").write_text(TOKEN)
    read = bash("cat .env.d/token")
    second = run(host, read, "--safe")
    assert second.result.code == 0, second.result.stderr
    assert TOKEN not in "".join(second.outputs)
    by_files = run(host, [("read_file", {"path": ".env.d/token"})], "--safe-files")
    assert TOKEN not in "".join(by_files.outputs)
    assert TOKEN in "".join(run(host, read).outputs)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["new", "new/objects/deep"])
def test_no_call_makes_a_folder_of_secrets_a_repository(host: FakeHost, folder: str) -> None:
    first = run(host, bash("mkdir -p new/objects/deep new/refs; echo ref: refs/heads/x > new/HEAD"), "--safe")
    assert first.result.code == 0, first.result.stderr
    (host.work / folder / "prod.env").write_text(TOKEN)
    read = bash(f"cat {folder}/prod.env")
    second = run(host, read, "--safe")
    assert second.result.code == 0, second.result.stderr
    assert TOKEN not in "".join(second.outputs)
    assert TOKEN in "".join(run(host, read).outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "marker"),
    [
        ("python3", "pyvenv.cfg"),
        ("tool", "pyvenv.cfg"),
        ("tool", "conda-meta"),
        ("node", "lib/node_modules"),
    ],
)
def test_no_call_makes_the_folder_a_toolchain_elsewhere(host: FakeHost, program: str, marker: str) -> None:
    for folder in (host.work / "bin", host.base / "elsewhere"):
        folder.mkdir()
    (host.work / "bin" / program).write_text("")
    host.change_owner()
    env = {"PATH": f"{host.work}/bin:{os.environ['PATH']}"}
    assert run(host, bash(f"mkdir -p {marker}"), "--safe", env=env).result.code == 0
    read = bash("cat @work@/backend/.env")
    elsewhere = {"directory": host.base / "elsewhere", "env": env}
    later = run(host, read, "--safe", **elsewhere)
    assert later.result.code == 0, later.result.stderr
    assert TOKEN not in later.outputs[0]
    assert TOKEN in run(host, read, **elsewhere).outputs[0]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--safe", "--safe-files"])
@pytest.mark.parametrize("arguments", ["--allow-dir data", "-C data", "-C ../work/data", ""])
def test_no_link_of_an_earlier_run_makes_another_folder_writable(host: FakeHost, option: str, arguments: str) -> None:
    private = host.base / "elsewhere"
    private.mkdir()
    (private / "secret").write_text(TOKEN)
    host.change_owner()
    assert run(host, bash(f"ln -s {private} data"), "--safe").result.code == 0
    more = {} if arguments else {"directory": private, "env": {"PWD": f"{host.work}/data"}}
    calls = [
        ("read_file", {"filepath": f"{private}/secret"}),
        ("write_file", {"filepath": f"{private}/new", "content": ""}),
    ]
    assert run(host, calls, option, *arguments.split(), **more).result.code == 8
    assert not (private / "new").exists()
    (host.work / "data").unlink()
    (host.work / "data").symlink_to(".")
    assert (
        run(host, [], option, *arguments.replace("../work/", "").split(), **({} if arguments else more)).result.code
        == 0
    )


@pytest.mark.slow
def test_a_virtual_environment_in_the_folder_works_elsewhere(host: FakeHost) -> None:
    python = host.work / ".venv/bin/python3"
    for folder in (python.parent, host.work / ".venv/lib/python3.11/site-packages", host.base / "elsewhere"):
        folder.mkdir(parents=True)
    python.symlink_to("/usr/bin/python3")
    (host.work / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    host.change_owner()
    env = {"PATH": f"{python.parent}:{os.environ['PATH']}"}
    assert run(host, bash("true"), "--safe", env=env).result.code == 0
    read = bash("python3 -c 'import sys; print(sys.prefix)'; ls @work@")
    [output] = run(host, read, "--safe", directory=host.base / "elsewhere", env=env).outputs
    assert str(python.parents[1]) in output.splitlines(), output
    assert "backend" not in output


@pytest.mark.slow
def test_the_attack_works_without_safe_mode(host: FakeHost) -> None:
    code, output, is_placed = attack(host, "files at the top", [])
    assert (code, TOKEN in output, is_placed) == (0, True, True)


@pytest.mark.slow
def test_a_second_name_of_a_later_secret_is_hidden(host: FakeHost) -> None:
    first = run(host, bash("echo plain > notes.txt; ln notes.txt prod.env; mkdir new; ln notes.txt new/copy"), "--safe")
    assert first.result.code == 0, first.result.stderr
    with (host.work / "prod.env").open("w") as file:
        file.write(TOKEN)
    second = run(host, bash("cat notes.txt prod.env new/copy"), "--safe")
    assert second.result.code == 0, second.result.stderr
    assert TOKEN not in "".join(second.outputs)
    assert TOKEN in "".join(run(host, bash("cat notes.txt")).outputs)


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "code"), [("many", 0), (".", 8)])
def test_thousands_of_secrets_are_hidden_or_the_run_is_refused(host: FakeHost, folder: str, code: int) -> None:
    (host.work / folder).mkdir(exist_ok=True)
    for number in range(4_000):
        (host.work / folder / f"{number}.env").write_text(TOKEN)
    host.change_owner()
    done = run(host, bash(f"cat {folder}/1.env; ls {folder} | wc -l"), "--safe")
    assert done.result.code == code
    assert TOKEN not in "".join(done.outputs)
    assert str(host.work / folder if folder != "." else host.work) in done.result.stderr.replace("\n", " ")


@pytest.mark.slow
def test_a_file_that_the_user_renames_can_be_read_again(host: FakeHost) -> None:
    assert run(host, bash("rm .env"), "--safe").result.code == 0
    again = run(host, bash("cat secrets/prod.txt"), "--safe")
    assert TOKEN not in "".join(again.outputs)
    assert "secrets/prod.txt" in again.result.stderr
    os.rename(host.work / "secrets/prod.txt", host.work / "secrets/plain.txt")
    assert TOKEN in "".join(run(host, bash("cat secrets/plain.txt"), "--safe").outputs)


@pytest.mark.slow
def test_a_folder_that_the_user_moves_and_links_to_stays_protected(host: FakeHost) -> None:
    (host.work / "backend/values").write_text(TOKEN)
    (host.work / "q.env").symlink_to("backend/values")
    assert run(host, bash("rm q.env"), "--safe").result.code == 0
    (host.work / "services").mkdir()
    os.rename(host.work / "backend", host.work / "services/backend")
    (host.work / "backend").symlink_to("services/backend")
    host.change_owner()
    write = bash(f"cat backend/.env backend/values; echo x > {HOOK}")
    done = run(host, write, "--safe")
    assert done.result.code == 0, done.result.stderr
    assert TOKEN not in "".join(done.outputs)
    assert not (host.work / HOOK).exists()
    assert "".join(run(host, write).outputs).count(TOKEN) == 2
    assert (host.work / HOOK).exists()


@pytest.mark.slow
def test_no_call_makes_the_scan_miss_a_new_secret_in_an_allowed_subfolder(host: FakeHost) -> None:
    folder = host.work / "src/deep/er"
    options = ("--safe", "--allow-dir", str(folder))
    fill = 'for n in 1 2 3 4 5; do mkdir src/$n; touch $(seq -f "src/$n/%g" 4500); done'
    assert run(host, bash(fill), *options).result.code == 0
    (folder / "prod.env").write_text(TOKEN)
    host.change_owner()
    read = bash("cat src/deep/er/prod.env")
    done = run(host, read, *options)
    assert done.result.code == 0, done.result.stderr
    assert TOKEN not in "".join(done.outputs)
    assert TOKEN in "".join(run(host, read).outputs)


@pytest.mark.slow
def test_hooks_that_git_no_longer_uses_can_be_written_again(host: FakeHost) -> None:
    write = bash("echo x > backend/tools/hooks/pre-push")
    assert run(host, write, "--safe").result.code == 0
    assert not (host.work / "backend/tools/hooks/pre-push").exists()
    config = host.work / "backend/.git/config"
    config.write_text(config.read_text().replace("hooksPath", "unused"))
    assert run(host, write, "--safe").result.code == 0
    assert (host.work / "backend/tools/hooks/pre-push").exists()


@pytest.mark.slow
def test_a_damaged_record_is_refused(host: FakeHost) -> None:
    assert run(host, bash("true"), "--safe").result.code == 0
    (record,) = host.base.rglob("scans.json")
    record.write_text("{")
    done = run(host, bash("true"), "--safe")
    assert (done.result.code, done.requests, str(record) in done.result.stderr) == (8, 0, True)
