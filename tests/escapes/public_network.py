"""A run of `ask` in a network of its own, where a public address leads to a server of the tests.

Run it as root in new network and mount namespaces. It prints a JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.escapes.safe_runs import bash, create_ask_host, run
from tests.escapes.test_command_network import read_connections
from tests.raw_server import make_certificate

SERVER_ADDRESS, OWN_ADDRESS = "93.184.215.15", "93.184.215.14"
SERVE = """
import http.server, os, ssl, sys
os.chdir(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain("certificate.pem", "key.pem")
server = http.server.ThreadingHTTPServer((sys.argv[2], 443), http.server.SimpleHTTPRequestHandler)
server.socket = tls.wrap_socket(server.socket, server_side=True)
print("listening", flush=True)
server.serve_forever()
"""


def _execute(command: str) -> None:
    subprocess.run(command.split(), check=True)


@contextmanager
def serve_in_another_network(folder: Path) -> Iterator[None]:
    """Serve the files of a folder at the public address, which is reached through a pair of network interfaces."""
    command = ["unshare", "--net", sys.executable, "-c", SERVE, str(folder), SERVER_ADDRESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin and server.stdout
        server.stdout.readline()
        inside = f"nsenter --target {server.pid} --net ip"
        _execute("ip link set lo up")
        _execute(f"ip link add outer type veth peer name inner netns {server.pid}")
        _execute(f"ip address add {OWN_ADDRESS}/24 dev outer")
        _execute("ip link set outer up")
        _execute(f"{inside} address add {SERVER_ADDRESS}/24 dev inner")
        _execute(f"{inside} link set inner up")
        server.stdin.write("\n")
        server.stdin.flush()
        server.stdout.readline()
        try:
            yield
        finally:
            server.kill()


def main() -> None:
    with tempfile.TemporaryDirectory() as name, create_ask_host("root") as host:
        folder = Path(name)
        (folder / "a.txt").write_text("from the server\n")
        certificate = make_certificate(folder, "DNS:allowed.test")
        (host.work / "certificate.pem").write_bytes(certificate.path.read_bytes())
        hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{SERVER_ADDRESS} allowed.test other.test\n10.9.8.7 private.test\n")
        _execute(f"mount --bind {hosts} /etc/hosts")
        options = [part for allowed in ("allowed.test", "private.test") for part in ("--allow-command-host", allowed)]
        with serve_in_another_network(folder):
            commands = [
                f"curl -sS --cacert certificate.pem https://{name}.test/a.txt"
                for name in ("allowed", "private", "other")
            ]
            done = run(host, bash(*commands), "--safe", *options)
        report = {"outputs": done.outputs, "connections": read_connections(host), "address": SERVER_ADDRESS}
        sys.stdout.write(json.dumps({**report, "stderr": done.result.stderr}))


if __name__ == "__main__":
    main()
