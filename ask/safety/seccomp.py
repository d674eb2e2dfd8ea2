"""The seccomp filter: which system calls a confined process is refused, as a program for the kernel.

The programs are made here in development and shipped as `<machine>.bpf`: `python -m ask.safety.seccomp` writes
them. A run only opens the one for its machine. See seccomp(2) and linux/bpf_common.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ask.safety.system_calls import LAST_CALL_NUMBER, MACHINES, X32_BIT, Machine

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER, _IF_ANY_BIT = 0x15, 0x25, 0x45
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16  # offsets in struct seccomp_data
_RETURN_ALLOW, _RETURN_ERRNO, _RETURN_KILL = 0x7FFF0000, 0x00050000, 0x80000000
# Linux's error numbers, wherever this is generated.
_EPERM, _ENOENT, _ENOSYS, _EPROTONOSUPPORT, _ESOCKTNOSUPPORT, _EAFNOSUPPORT = 1, 2, 38, 93, 94, 97

_Instruction = tuple[int, int, int, int]
"""Operation, steps to skip if true, steps to skip if false, operand."""


class ArgumentCheck(NamedTuple):
    """What an argument of a call is checked for: some bit of `any_bits`, or (not) the value `equal_to`, under `mask`.

    Only the lower half of an argument is looked at: the kernel takes all of these as 32 bits.
    """

    argument_index: int
    any_bits: int = 0
    equal_to: int | None = None
    negated: bool = False
    mask: int = 0

    def to_instructions(self, skip_count: int) -> list[_Instruction]:
        """The steps of the check; where it fails they skip the `skip_count` steps behind them."""
        load = [(_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * self.argument_index)]
        if self.mask:
            load.append((_AND, 0, 0, self.mask))
        if self.equal_to is None:
            return [*load, (_IF_ANY_BIT, 0, skip_count, self.any_bits)]
        return [*load, (_IF_EQUAL, skip_count if self.negated else 0, 0 if self.negated else skip_count, self.equal_to)]


class SeccompRule(NamedTuple):
    """Calls that are refused with `errno` if all of `checks` hold."""

    system_calls: str
    errno: int = _EPERM
    checks: tuple[ArgumentCheck, ...] = ()


_NEW_NAMESPACE_FLAGS = 0x7E020000
_SET_ID_BITS = 0o6000
_CREATE_FLAGS = 0x400040
"""O_CREAT, and the bit of O_TMPFILE: without these, open's mode means nothing."""
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET = 1, 2, 5
_SOCK_TYPE_MASK = 0xF
"""The other bits of a socket's type are flags; the kernel refuses those it does not know."""
_IPPROTO_TCP, _IPPROTO_UDP = 6, 17
_TCP_ULP = 31
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_OTHER_PROCESS = (ArgumentCheck(0, equal_to=0, negated=True),)


def exclude_values(argument_index: int, values: Iterable[int], mask: int = 0) -> tuple[ArgumentCheck, ...]:
    """Checks that an argument is none of the values."""
    return tuple(ArgumentCheck(argument_index, equal_to=value, negated=True, mask=mask) for value in values)


RULES = (
    # The mounts are the walls.
    SeccompRule("mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr"),
    SeccompRule("open_by_handle_at name_to_handle_at fanotify_init swapon swapoff quotactl quotactl_fd nfsservctl"),
    # Other processes, the worker's above all.
    SeccompRule("ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp move_pages migrate_pages"),
    # The kernel itself, and the parts of it where most holes were found.
    SeccompRule("bpf perf_event_open userfaultfd lookup_dcookie add_key request_key keyctl setns unshare"),
    SeccompRule("kexec_load kexec_file_load init_module finit_module delete_module create_module query_module"),
    SeccompRule("get_kernel_syms reboot syslog acct iopl ioperm uselib ustat sysfs _sysctl vhangup"),
    SeccompRule("settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname"),
    # Not there: callers know what to do without them. In memory, as with clone3 and openat2, no filter can look.
    SeccompRule("io_uring_setup io_uring_enter io_uring_register clone3 openat2", _ENOSYS),
    SeccompRule("clone", checks=(ArgumentCheck(0, any_bits=_NEW_NAMESPACE_FLAGS),)),
    # Typing into the terminal, or pasting on the console.
    *(SeccompRule("ioctl", checks=(ArgumentCheck(1, equal_to=command),)) for command in (_TIOCSTI, _TIOCLINUX)),
    # Internet sockets for TCP and UDP only: no MPTCP, UDP-Lite, SCTP, ICMP or raw packets. A path socket in a
    # writable folder leads out, whatever the network namespace.
    SeccompRule("socket", _EAFNOSUPPORT, exclude_values(0, (_AF_INET, _AF_INET6))),
    SeccompRule("socket", _ESOCKTNOSUPPORT, exclude_values(1, (_SOCK_STREAM, _SOCK_DGRAM), _SOCK_TYPE_MASK)),
    *(
        SeccompRule(
            "socket",
            _EPROTONOSUPPORT,
            (ArgumentCheck(1, equal_to=kind, mask=_SOCK_TYPE_MASK), *exclude_values(2, (0, protocol))),
        )
        for kind, protocol in ((_SOCK_STREAM, _IPPROTO_TCP), (_SOCK_DGRAM, _IPPROTO_UDP))
    ),
    # Nor does a TCP socket become one of another protocol (TLS, SMC).
    SeccompRule("setsockopt", _ENOENT, (ArgumentCheck(1, equal_to=_IPPROTO_TCP), ArgumentCheck(2, equal_to=_TCP_ULP))),
    # A pair of streams or of packets in sequence is connected for good; a pair of datagrams is not, and the kernel
    # makes one for SOCK_RAW too.
    SeccompRule("socketpair", _EAFNOSUPPORT, exclude_values(0, (_AF_UNIX,))),
    SeccompRule("socketpair", checks=exclude_values(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_TYPE_MASK)),
    *(SeccompRule("mknod", checks=(ArgumentCheck(1, mask=0o170000, equal_to=kind),)) for kind in (0o020000, 0o060000)),
    *(
        SeccompRule("mknodat", checks=(ArgumentCheck(2, mask=0o170000, equal_to=kind),))
        for kind in (0o020000, 0o060000)
    ),
    # A set-id file of root's would work for everybody outside.
    SeccompRule("chmod fchmod creat mknod", checks=(ArgumentCheck(1, any_bits=_SET_ID_BITS),)),
    SeccompRule("fchmodat fchmodat2 mknodat", checks=(ArgumentCheck(2, any_bits=_SET_ID_BITS),)),
    SeccompRule("open", checks=(ArgumentCheck(1, any_bits=_CREATE_FLAGS), ArgumentCheck(2, any_bits=_SET_ID_BITS))),
    SeccompRule("openat", checks=(ArgumentCheck(2, any_bits=_CREATE_FLAGS), ArgumentCheck(3, any_bits=_SET_ID_BITS))),
    # Nobody's limits and priority but one's own: the worker watches over the rest.
    SeccompRule("prlimit64 sched_setscheduler sched_setparam sched_setattr setpriority", checks=_OTHER_PROCESS),
    SeccompRule("setpriority", checks=(ArgumentCheck(1, equal_to=0, negated=True),)),
)


def build_filter(machine: Machine) -> bytes:
    """The program for a machine, as an array of `struct sock_filter`."""
    steps: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_IF_EQUAL, 1, 0, machine.audit_architecture),
        (_RETURN, 0, 0, _RETURN_KILL),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
    ]
    if machine.name == "x86_64":
        steps += [(_IF_ANY_BIT, 0, 1, X32_BIT), (_RETURN, 0, 0, _RETURN_KILL)]
    steps += [(_IF_GREATER, 0, 1, LAST_CALL_NUMBER), (_RETURN, 0, 0, _RETURN_ERRNO | _ENOSYS)]
    for rule in RULES:
        for call in rule.system_calls.split():
            number = machine.get_call_number(call)
            if number is not None:
                steps += _build_rule(number, rule)
    steps.append((_RETURN, 0, 0, _RETURN_ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def _build_rule(call_number: int, rule: SeccompRule) -> Iterator[_Instruction]:
    """The steps that refuse a call; they begin and end with its number loaded."""
    after: list[_Instruction] = [(_RETURN, 0, 0, _RETURN_ERRNO | rule.errno)]
    for check in reversed(rule.checks):
        after = [*check.to_instructions(len(after)), *after]
    yield (_IF_EQUAL, 0, len(after), call_number)
    yield from after
    if rule.checks:
        yield (_LOAD, 0, 0, _NUMBER_OFFSET)


def find_filter(machine: str) -> Path | None:
    """Where the filter for a machine (`uname -m`) lies, None where there is none for it."""
    path = Path(__file__).parent / f"{machine}.bpf"
    return path if path.exists() else None


def write_filters(machines: Iterable[Machine] = MACHINES) -> None:
    """Write the filters anew, beside this file."""
    for machine in machines:
        (Path(__file__).parent / f"{machine.name}.bpf").write_bytes(build_filter(machine))


if __name__ == "__main__":
    write_filters()
