"""The seccomp filter: which system calls a confined process is refused, as a program for the kernel.

The programs are made here in development and shipped as `<machine>.bpf`: `python -m ask.safety.seccomp` writes
them. A run only opens the one for its machine. See seccomp(2) and linux/bpf_common.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ask.safety.system_calls import FOREIGN_BIT, LAST_NUMBER, MACHINES, Machine

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER, _IF_ANY_BIT = 0x15, 0x25, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
# Linux's error numbers, wherever this is generated.
_EPERM, _ENOENT, _ENOSYS, _EPROTONOSUPPORT, _ESOCKTNOSUPPORT, _EAFNOSUPPORT = 1, 2, 38, 93, 94, 97

_Step = tuple[int, int, int, int]
"""Operation, steps to skip if true, steps to skip if false, operand."""


class Check(NamedTuple):
    """What an argument of a call is checked for: some bit of `any_of`, or (not) the value `equal`, under `mask`.

    Only the lower half of an argument is looked at: the kernel takes all of these as 32 bits.
    """

    argument: int
    any_of: int = 0
    equal: int | None = None
    negated: bool = False
    mask: int = 0

    def steps(self, left: int) -> list[_Step]:
        """The steps of the check; where it fails they skip the `left` steps behind them."""
        load = [(_LOAD, 0, 0, _ARGUMENTS + 8 * self.argument)]
        if self.mask:
            load.append((_AND, 0, 0, self.mask))
        if self.equal is None:
            return [*load, (_IF_ANY_BIT, 0, left, self.any_of)]
        return [*load, (_IF_EQUAL, left if self.negated else 0, 0 if self.negated else left, self.equal)]


class Rule(NamedTuple):
    """Calls that are refused with `error` if all of `checks` hold."""

    calls: str
    error: int = _EPERM
    checks: tuple[Check, ...] = ()


_NEW_NAMESPACE = 0x7E020000
_SET_ID = 0o6000
_CREATES = 0x400040
"""O_CREAT, and the bit of O_TMPFILE: without these, open's mode means nothing."""
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET = 1, 2, 5
_SOCK_TYPE_MASK = 0xF
"""The other bits of a socket's type are flags; the kernel refuses those it does not know."""
_IPPROTO_TCP, _IPPROTO_UDP = 6, 17
_TCP_ULP = 31
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_NOT_SELF = (Check(0, equal=0, negated=True),)


def none_of(argument: int, values: Iterable[int], mask: int = 0) -> tuple[Check, ...]:
    """Checks that an argument is none of the values."""
    return tuple(Check(argument, equal=value, negated=True, mask=mask) for value in values)


RULES = (
    # The mounts are the walls.
    Rule("mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr"),
    Rule("open_by_handle_at name_to_handle_at fanotify_init swapon swapoff quotactl quotactl_fd nfsservctl"),
    # Other processes, the worker's above all.
    Rule("ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp move_pages migrate_pages"),
    # The kernel itself, and the parts of it where most holes were found.
    Rule("bpf perf_event_open userfaultfd lookup_dcookie add_key request_key keyctl setns unshare"),
    Rule("kexec_load kexec_file_load init_module finit_module delete_module create_module query_module"),
    Rule("get_kernel_syms reboot syslog acct iopl ioperm uselib ustat sysfs _sysctl vhangup"),
    Rule("settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname"),
    # Not there: callers know what to do without them. In memory, as with clone3 and openat2, no filter can look.
    Rule("io_uring_setup io_uring_enter io_uring_register clone3 openat2", _ENOSYS),
    Rule("clone", checks=(Check(0, any_of=_NEW_NAMESPACE),)),
    # Typing into the terminal, or pasting on the console.
    *(Rule("ioctl", checks=(Check(1, equal=command),)) for command in (_TIOCSTI, _TIOCLINUX)),
    # Internet sockets for TCP and UDP only: no MPTCP, UDP-Lite, SCTP, ICMP or raw packets. A path socket in a
    # writable folder leads out, whatever the network namespace.
    Rule("socket", _EAFNOSUPPORT, none_of(0, (_AF_INET, _AF_INET6))),
    Rule("socket", _ESOCKTNOSUPPORT, none_of(1, (_SOCK_STREAM, _SOCK_DGRAM), _SOCK_TYPE_MASK)),
    *(
        Rule("socket", _EPROTONOSUPPORT, (Check(1, equal=kind, mask=_SOCK_TYPE_MASK), *none_of(2, (0, protocol))))
        for kind, protocol in ((_SOCK_STREAM, _IPPROTO_TCP), (_SOCK_DGRAM, _IPPROTO_UDP))
    ),
    # Nor does a TCP socket become one of another protocol (TLS, SMC).
    Rule("setsockopt", _ENOENT, (Check(1, equal=_IPPROTO_TCP), Check(2, equal=_TCP_ULP))),
    # A pair of streams or of packets in sequence is connected for good; a pair of datagrams is not, and the kernel
    # makes one for SOCK_RAW too.
    Rule("socketpair", _EAFNOSUPPORT, none_of(0, (_AF_UNIX,))),
    Rule("socketpair", checks=none_of(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_TYPE_MASK)),
    *(Rule("mknod", checks=(Check(1, mask=0o170000, equal=kind),)) for kind in (0o020000, 0o060000)),
    *(Rule("mknodat", checks=(Check(2, mask=0o170000, equal=kind),)) for kind in (0o020000, 0o060000)),
    # A set-id file of root's would work for everybody outside.
    Rule("chmod fchmod creat mknod", checks=(Check(1, any_of=_SET_ID),)),
    Rule("fchmodat fchmodat2 mknodat", checks=(Check(2, any_of=_SET_ID),)),
    Rule("open", checks=(Check(1, any_of=_CREATES), Check(2, any_of=_SET_ID))),
    Rule("openat", checks=(Check(2, any_of=_CREATES), Check(3, any_of=_SET_ID))),
    # Nobody's limits and priority but one's own: the worker watches over the rest.
    Rule("prlimit64 sched_setscheduler sched_setparam sched_setattr setpriority", checks=_NOT_SELF),
    Rule("setpriority", checks=(Check(1, equal=0, negated=True),)),
)


def make_filter(machine: Machine) -> bytes:
    """The program for a machine, as an array of `struct sock_filter`."""
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine.name == "x86_64":
        steps += [(_IF_ANY_BIT, 0, 1, FOREIGN_BIT), (_RETURN, 0, 0, _KILL)]
    steps += [(_IF_GREATER, 0, 1, LAST_NUMBER), (_RETURN, 0, 0, _REFUSE | _ENOSYS)]
    for rule in RULES:
        for call in rule.calls.split():
            number = machine.number(call)
            if number is not None:
                steps += _refuse(number, rule)
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _refuse(number: int, rule: Rule) -> Iterator[_Step]:
    """The steps that refuse a call; they begin and end with its number loaded."""
    after: list[_Step] = [(_RETURN, 0, 0, _REFUSE | rule.error)]
    for check in reversed(rule.checks):
        after = [*check.steps(len(after)), *after]
    yield (_IF_EQUAL, 0, len(after), number)
    yield from after
    if rule.checks:
        yield (_LOAD, 0, 0, _NUMBER)


def filter_path(machine: str) -> Path | None:
    """Where the filter for a machine (`uname -m`) lies, None where there is none for it."""
    path = Path(__file__).parent / f"{machine}.bpf"
    return path if path.exists() else None


def write_filters(machines: Iterable[Machine] = MACHINES) -> None:
    """Write the filters anew, beside this file."""
    for machine in machines:
        (Path(__file__).parent / f"{machine.name}.bpf").write_bytes(make_filter(machine))


if __name__ == "__main__":
    write_filters()
