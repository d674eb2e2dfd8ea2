"""Escapes through the environment, the network, other processes and the kernel, and by exhausting resources."""

from __future__ import annotations

from tests.escapes.escape import (
    Escape,
    output_contains,
    process_runs,
    python,
    server_received,
    shell,
    status_matches,
    system_call,
)
from tests.safety.fake_host import FakeHost

_UNIX = 'import socket; s = socket.socket(socket.AF_UNIX); s.connect({address}); s.sendall(b"{word}")'
_PAIR = "import socket; s, other = socket.socketpair(socket.AF_UNIX, socket.{kind}); "
_SENDS = _PAIR + 's.sendto(b"{word}", "@datagrams@")'
_CONNECTS = _PAIR + 's.connect("@datagrams@"); s.send(b"{word}")'
_DNS = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
    's.sendto(b"\\1\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6by-dns\\4test\\0\\0\\1\\0\\1", ("127.0.0.1", @udp@))'
)
_OPENED = 'import socket; socket.socket({family}); print("open" + "ed")'
_TCP_ULP = (
    'import socket; s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname()); '
    'c.setsockopt(6, 31, b"tls"); print("open" + "ed")'
)
_OF_ASK = (
    "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q 'ask .*[c]anary' && {then} && echo reached; done"
)
_NOT_RESERVED = 0x4000  # MAP_NORESERVE, which Python 3.11 has no name for
_MEMORY = f"mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | {_NOT_RESERVED})"
_NO_MODULE = "the kernel has no such sockets, or a container forbids them"
_FORBIDDEN = "the kernel or a container forbids it"

ENVIRONMENT = [
    shell("env", "env", output_contains()),
    shell("environment of its parent", "tr '\\0' '\\n' < /proc/$PPID/environ", output_contains("CANARY")),
    shell("environments of all", "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep CANARY", output_contains("CANARY")),
    shell("arguments of its parent", "tr '\\0' '\\n' < /proc/$PPID/cmdline", output_contains()),
    shell("arguments of all", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -a ^canary", output_contains()),
    shell("descriptors of its parent", "cat /proc/$PPID/fd/7", output_contains()),
    shell("the user's BASH_ENV", "true", output_contains("from-bash-env-42")),
    shell("the user's LD_PRELOAD", "/usr/bin/env true", output_contains("from LD_PRELOAD")),
    shell(".env", "cat .env", output_contains()),
    shell(".env further down", "cat pkg/.env.local", output_contains()),
    shell(".env by moving it", "mv .env.moved e; cat e", output_contains()),
    shell(".env by moving its folder", "mv part q; cat q/.env", output_contains()),
    Escape(".env, tool", "read_file", {"filepath": "pkg/../.env"}, output_contains()),
]

NETWORK = [
    shell("TCP by the shell", "echo by-shell > /dev/tcp/127.0.0.1/@tcp@", server_received("by-shell")),
    shell(
        "TCP",
        python('import socket; socket.create_connection(("127.0.0.1", @tcp@)).sendall(b"by-tcp")'),
        server_received("by-tcp"),
    ),
    shell("UDP", "echo by-udp > /dev/udp/127.0.0.1/@udp@", server_received("by-udp")),
    shell("DNS", python(_DNS), server_received("by-dns")),
    shell("path socket", python(_UNIX.format(address='"@path@"', word="by-path")), server_received("by-path")),
    shell(
        "abstract socket", python(_UNIX.format(address='"\\0@abstract@"', word="by-name")), server_received("by-name")
    ),
    shell("datagram pair", python(_SENDS.format(kind="SOCK_DGRAM", word="by-pair")), server_received("by-pair")),
    shell("raw pair", python(_SENDS.format(kind="SOCK_RAW", word="by-raw")), server_received("by-raw")),
    shell(
        "raw pair, connected anew",
        python(_CONNECTS.format(kind="SOCK_RAW", word="raw-anew")),
        server_received("raw-anew"),
    ),
    Escape("fetch_url", "fetch_url", {"url": "http://127.0.0.1:@tcp@/by-fetch"}, server_received("by-fetch")),
    shell("netlink", python(_OPENED.format(family="16, 3, 0")), output_contains("opened")),
    shell("MPTCP", python(_OPENED.format(family="2, 1, 262")), output_contains("opened"), lacks=_NO_MODULE),
    shell("UDP-Lite", python(_OPENED.format(family="2, 2, 136")), output_contains("opened"), lacks=_NO_MODULE),
    shell(
        "UDP-Lite over IPv6", python(_OPENED.format(family="10, 2, 136")), output_contains("opened"), lacks=_NO_MODULE
    ),
    shell("SCTP", python(_OPENED.format(family="2, 1, 132")), output_contains("opened"), lacks=_NO_MODULE),
    shell("ICMP", python(_OPENED.format(family="2, 2, 1")), output_contains("opened"), lacks=_FORBIDDEN),
    shell(
        "raw packets of IP",
        python(_OPENED.format(family="2, 3, 1")),
        output_contains("opened"),
        root=True,
        lacks=_FORBIDDEN,
    ),
    shell("TLS in the kernel", python(_TCP_ULP), output_contains("opened"), lacks=_NO_MODULE),
    shell("vsock", python(_OPENED.format(family="40")), output_contains("opened"), lacks=_NO_MODULE),
    shell("packets", python(_OPENED.format(family="17, 3, 0")), output_contains("opened"), root=True, lacks=_NO_MODULE),
]

KERNEL = [
    shell("signal ask", _OF_ASK.format(then="kill -0 $(basename $p)"), output_contains("reached")),
    shell("memory of ask", _OF_ASK.format(then="exec 5< $p/mem"), output_contains("reached")),
    shell(
        "remount",
        "mount --bind @work@ @outside@ && mount -o remount,rw,bind @outside@ && umount @outside@ && echo mounted",
        output_contains("mounted"),
        root=True,
        lacks=_FORBIDDEN,
    ),
    shell(
        "a new user namespace",
        "unshare -Urm id -u | sed s/^0/became-root/",
        output_contains("became-root"),
        lacks=_FORBIDDEN,
    ),
    shell(
        "the kernel's settings",
        'f=/proc/sys/kernel/core_pattern; v=$(cat $f); echo "$v" > $f && echo written',
        output_contains("written"),
        root=True,
        lacks=_FORBIDDEN,
    ),
    shell(
        "io_uring",
        system_call(425, 425, 8, "ctypes.create_string_buffer(120)"),
        output_contains("it worked"),
        lacks=_FORBIDDEN,
    ),
    shell("keyctl", system_call(250, 219, 0, -3, 1), output_contains("it worked"), lacks=_FORBIDDEN),
    shell("a device", "mknod null c 1 3 && echo made-it", output_contains("made-it"), root=True, lacks=_FORBIDDEN),
    shell(
        "a set-id program",
        "cp /bin/true t; chmod 4755 t",
        status_matches("work/t", lambda it: bool(it.st_mode & 0o4000)),
    ),
    shell(
        "a set-id program, at once",
        python('import os; os.umask(0); os.open("t2", os.O_CREAT | os.O_WRONLY, 0o4755)'),
        status_matches("work/t2", lambda it: True),
    ),
    shell(
        "typing into the terminal",  # the kernel would say that this is no terminal; the filter does not get so far
        python('import fcntl; fcntl.ioctl(open("/dev/null"), 0x5412, b"x")') + " 2>&1 | grep -o 'Errno 25'",
        output_contains("Errno 25"),
    ),
]


def spilled_too_much(host: FakeHost, output: str) -> bool:
    """Check whether an overflow file is larger than 1 MiB."""
    return any(path.stat().st_size > 1 << 20 for path in (host.base / "data/ask/results").rglob("*"))


RESOURCES = [
    shell(
        "a process that stays",
        "setsid nohup sleep 86321.@tcp@ > /dev/null 2>&1 & echo begun",
        process_runs("sleep 86321.@tcp@"),
    ),
    shell(
        "a process that stays behind a time-out",
        "(setsid nohup env -i sleep 86322.@tcp@ > /dev/null 2>&1 &); echo begun",
        process_runs("sleep 86322.@tcp@"),
    ),
    shell("output without end", "yes | head -c 3000000", spilled_too_much),
    shell(
        "400 processes",
        "for i in $(seq 400); do sleep 20 & done; sleep 1; echo alive $(jobs -r | wc -l); kill $(jobs -p)",
        output_contains("alive 400"),
    ),
    shell(
        "8 GiB of memory",
        python(f"import mmap; {_MEMORY}") + " && echo had-it",
        output_contains("had-it"),
        lacks="too little memory",
    ),
    shell("a file of 2 GiB", "truncate -s 2G big", status_matches("work/big", lambda it: it.st_size == 2 << 30)),
]
