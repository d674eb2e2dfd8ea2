"""Ways out by the environment, the network, other processes, the kernel, and by using up what there is."""

from __future__ import annotations

from tests.escapes.escape import Escape, heard, python, runs, shell, status, system_call, told
from tests.safety.ground import Ground

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
    shell("env", "env", told()),
    shell("environment of its parent", "tr '\\0' '\\n' < /proc/$PPID/environ", told("CANARY")),
    shell("environments of all", "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep CANARY", told("CANARY")),
    shell("arguments of its parent", "tr '\\0' '\\n' < /proc/$PPID/cmdline", told()),
    shell("arguments of all", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -a ^canary", told()),
    shell("descriptors of its parent", "cat /proc/$PPID/fd/7", told()),
    shell("the user's BASH_ENV", "true", told("from-bash-env-42")),
    shell("the user's LD_PRELOAD", "/usr/bin/env true", told("from LD_PRELOAD")),
    shell(".env", "cat .env", told()),
    shell(".env further down", "cat pkg/.env.local", told()),
    shell(".env by moving it", "mv .env.moved e; cat e", told()),
    shell(".env by moving its folder", "mv part q; cat q/.env", told()),
    Escape(".env, tool", "read_file", {"filepath": "pkg/../.env"}, told()),
]

NETWORK = [
    shell("TCP by the shell", "echo by-shell > /dev/tcp/127.0.0.1/@tcp@", heard("by-shell")),
    shell(
        "TCP",
        python('import socket; socket.create_connection(("127.0.0.1", @tcp@)).sendall(b"by-tcp")'),
        heard("by-tcp"),
    ),
    shell("UDP", "echo by-udp > /dev/udp/127.0.0.1/@udp@", heard("by-udp")),
    shell("DNS", python(_DNS), heard("by-dns")),
    shell("path socket", python(_UNIX.format(address='"@path@"', word="by-path")), heard("by-path")),
    shell("abstract socket", python(_UNIX.format(address='"\\0@abstract@"', word="by-name")), heard("by-name")),
    shell("datagram pair", python(_SENDS.format(kind="SOCK_DGRAM", word="by-pair")), heard("by-pair")),
    shell("raw pair", python(_SENDS.format(kind="SOCK_RAW", word="by-raw")), heard("by-raw")),
    shell("raw pair, connected anew", python(_CONNECTS.format(kind="SOCK_RAW", word="raw-anew")), heard("raw-anew")),
    Escape("fetch_url", "fetch_url", {"url": "http://127.0.0.1:@tcp@/by-fetch"}, heard("by-fetch")),
    shell("netlink", python(_OPENED.format(family="16, 3, 0")), told("opened")),
    shell("MPTCP", python(_OPENED.format(family="2, 1, 262")), told("opened"), lacks=_NO_MODULE),
    shell("UDP-Lite", python(_OPENED.format(family="2, 2, 136")), told("opened"), lacks=_NO_MODULE),
    shell("UDP-Lite over IPv6", python(_OPENED.format(family="10, 2, 136")), told("opened"), lacks=_NO_MODULE),
    shell("SCTP", python(_OPENED.format(family="2, 1, 132")), told("opened"), lacks=_NO_MODULE),
    shell("ICMP", python(_OPENED.format(family="2, 2, 1")), told("opened"), lacks=_FORBIDDEN),
    shell("raw packets of IP", python(_OPENED.format(family="2, 3, 1")), told("opened"), root=True, lacks=_FORBIDDEN),
    shell("TLS in the kernel", python(_TCP_ULP), told("opened"), lacks=_NO_MODULE),
    shell("vsock", python(_OPENED.format(family="40")), told("opened"), lacks=_NO_MODULE),
    shell("packets", python(_OPENED.format(family="17, 3, 0")), told("opened"), root=True, lacks=_NO_MODULE),
]

KERNEL = [
    shell("signal ask", _OF_ASK.format(then="kill -0 $(basename $p)"), told("reached")),
    shell("memory of ask", _OF_ASK.format(then="exec 5< $p/mem"), told("reached")),
    shell(
        "remount",
        "mount --bind @work@ @outside@ && mount -o remount,rw,bind @outside@ && umount @outside@ && echo mounted",
        told("mounted"),
        root=True,
        lacks=_FORBIDDEN,
    ),
    shell("a new user namespace", "unshare -Urm id -u | sed s/^0/became-root/", told("became-root"), lacks=_FORBIDDEN),
    shell(
        "the kernel's settings",
        'f=/proc/sys/kernel/core_pattern; v=$(cat $f); echo "$v" > $f && echo written',
        told("written"),
        root=True,
        lacks=_FORBIDDEN,
    ),
    shell(
        "io_uring", system_call(425, 425, 8, "ctypes.create_string_buffer(120)"), told("it worked"), lacks=_FORBIDDEN
    ),
    shell("keyctl", system_call(250, 219, 0, -3, 1), told("it worked"), lacks=_FORBIDDEN),
    shell("a device", "mknod null c 1 3 && echo made-it", told("made-it"), root=True, lacks=_FORBIDDEN),
    shell("a set-id program", "cp /bin/true t; chmod 4755 t", status("work/t", lambda it: bool(it.st_mode & 0o4000))),
    shell(
        "a set-id program, at once",
        python('import os; os.umask(0); os.open("t2", os.O_CREAT | os.O_WRONLY, 0o4755)'),
        status("work/t2", lambda it: True),
    ),
    shell(
        "typing into the terminal",  # the kernel would say that this is no terminal; the filter does not get so far
        python('import fcntl; fcntl.ioctl(open("/dev/null"), 0x5412, b"x")') + " 2>&1 | grep -o 'Errno 25'",
        told("Errno 25"),
    ),
]


def spilled_too_much(ground: Ground, said: str) -> bool:
    """There is more than a MiB in a file of results."""
    return any(path.stat().st_size > 1 << 20 for path in (ground.base / "data/ask/results").rglob("*"))


RESOURCES = [
    shell(
        "a process that stays",
        "setsid nohup sleep 86321.@tcp@ > /dev/null 2>&1 & echo begun",
        runs("sleep 86321.@tcp@"),
    ),
    shell(
        "a process that stays behind a time-out",
        "(setsid nohup env -i sleep 86322.@tcp@ > /dev/null 2>&1 &); echo begun",
        runs("sleep 86322.@tcp@"),
    ),
    shell("output without end", "yes | head -c 3000000", spilled_too_much),
    shell(
        "400 processes",
        "for i in $(seq 400); do sleep 20 & done; sleep 1; echo alive $(jobs -r | wc -l); kill $(jobs -p)",
        told("alive 400"),
    ),
    shell(
        "8 GiB of memory",
        python(f"import mmap; {_MEMORY}") + " && echo had-it",
        told("had-it"),
        lacks="too little memory",
    ),
    shell("a file of 2 GiB", "truncate -s 2G big", status("work/big", lambda it: it.st_size == 2 << 30)),
]
