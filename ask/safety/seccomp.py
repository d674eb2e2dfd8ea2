"""The seccomp filter of the sandbox: the system calls that are refused, and the BPF programs built from them.

`make generated` builds the programs, which are shipped as `<machine>.bpf`; a run only opens the one for its machine.
See seccomp(2) and linux/bpf_common.h. The numbers of the system calls are in `system_call_numbers.csv`, empty for a
call that a machine does not have. They are from Linux's arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h (arm64).
"""

from __future__ import annotations

import csv
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from ask.records import NamedTuple

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The names that `uname -m` prints, each with the AUDIT_ARCH constant of its native system calls.

A call with any other one kills the process.
"""
LAST_CALL_NUMBER = 462
"""mseal, of Linux 6.10. What came later is unknown here, and refused as not there."""
_X32_BIT = 0x40000000
"""The bit that marks a system call of the x32 ABI on x86-64."""

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER, _IF_ANY_BIT = 0x15, 0x25, 0x45
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16  # offsets in struct seccomp_data
_RETURN_ALLOW, _RETURN_ERRNO, _RETURN_KILL = 0x7FFF0000, 0x00050000, 0x80000000
# Linux's error numbers, whatever system this is built on.
_EPERM, _ENOENT, _ENOSYS, _EPROTONOSUPPORT, _ESOCKTNOSUPPORT, _EAFNOSUPPORT = 1, 2, 38, 93, 94, 97

_Instruction = tuple[int, int, int, int]
"""Operation code, jump if true, jump if false, operand; jumps are numbers of instructions to skip."""


class ArgumentCheck(NamedTuple):
    """A check of a system call's argument, after applying `mask` if it is not 0.

    It passes if the argument has any of `any_bits`, or if it is (or with `negated`, is not) `equal_to`. Only the lower
    32 bits are compared: the kernel ignores the others for all of these arguments.
    """

    argument_index: int
    any_bits: int = 0
    equal_to: int | None = None
    negated: bool = False
    mask: int = 0

    def to_instructions(self, skip_count: int) -> list[_Instruction]:
        """Build the instructions of the check. If it fails, they skip the next `skip_count` instructions."""
        load = [(_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * self.argument_index)]
        if self.mask:
            load.append((_AND, 0, 0, self.mask))
        if self.equal_to is None:
            return [*load, (_IF_ANY_BIT, 0, skip_count, self.any_bits)]
        return [*load, (_IF_EQUAL, skip_count if self.negated else 0, 0 if self.negated else skip_count, self.equal_to)]


class SeccompRule(NamedTuple):
    """System calls, separated by spaces, that fail with `errno` if all checks pass."""

    system_calls: str
    errno: int = _EPERM
    checks: tuple[ArgumentCheck, ...] = ()


_NEW_NAMESPACE_FLAGS = 0x7E020000
_S_IFMT, _S_IFCHR, _S_IFBLK, _SET_ID_BITS = 0o170000, 0o020000, 0o060000, 0o6000
_CREATE_FLAGS = 0x400040
"""O_CREAT and O_TMPFILE: without them, open() ignores its mode argument."""
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET = 1, 2, 5
_SOCK_TYPE_MASK = 0xF
"""The other bits of a socket type are flags."""
_IPPROTO_TCP, _IPPROTO_UDP = 6, 17
_TCP_ULP = 31
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_OTHER_PROCESS = (ArgumentCheck(0, equal_to=0, negated=True),)


def _exclude_values(argument_index: int, values: Iterable[int], mask: int = 0) -> tuple[ArgumentCheck, ...]:
    """Build checks that an argument is none of the values."""
    return tuple(ArgumentCheck(argument_index, equal_to=value, negated=True, mask=mask) for value in values)


RULES = (
    # Mounts, on which the isolation depends.
    SeccompRule("mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr"),
    SeccompRule("open_by_handle_at name_to_handle_at fanotify_init swapon swapoff quotactl quotactl_fd nfsservctl"),
    # Access to other processes, above all to the worker.
    SeccompRule("ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp move_pages migrate_pages"),
    # The kernel itself, and the interfaces in which most vulnerabilities were found.
    SeccompRule("bpf perf_event_open userfaultfd lookup_dcookie add_key request_key keyctl setns unshare"),
    SeccompRule("kexec_load kexec_file_load init_module finit_module delete_module create_module query_module"),
    SeccompRule("get_kernel_syms reboot syslog acct iopl ioperm uselib ustat sysfs _sysctl vhangup"),
    SeccompRule("settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname"),
    # ENOSYS makes callers fall back to older calls. clone3 and openat2 have arguments in memory, which a filter cannot
    # read.
    SeccompRule("io_uring_setup io_uring_enter io_uring_register clone3 openat2", _ENOSYS),
    SeccompRule("clone", checks=(ArgumentCheck(0, any_bits=_NEW_NAMESPACE_FLAGS),)),
    # Injecting input into the terminal or the console.
    *(SeccompRule("ioctl", checks=(ArgumentCheck(1, equal_to=command),)) for command in (_TIOCSTI, _TIOCLINUX)),
    # Only TCP and UDP over IP: no MPTCP, UDP-Lite, SCTP, ICMP or raw packets. Unix sockets are refused because a socket
    # file in a writable folder could connect to a process outside, regardless of the network namespace.
    SeccompRule("socket", _EAFNOSUPPORT, _exclude_values(0, (_AF_INET, _AF_INET6))),
    SeccompRule("socket", _ESOCKTNOSUPPORT, _exclude_values(1, (_SOCK_STREAM, _SOCK_DGRAM), _SOCK_TYPE_MASK)),
    *(
        SeccompRule(
            "socket",
            _EPROTONOSUPPORT,
            (ArgumentCheck(1, equal_to=kind, mask=_SOCK_TYPE_MASK), *_exclude_values(2, (0, protocol))),
        )
        for kind, protocol in ((_SOCK_STREAM, _IPPROTO_TCP), (_SOCK_DGRAM, _IPPROTO_UDP))
    ),
    # No upper-layer protocol (TLS, SMC) on a TCP socket.
    SeccompRule("setsockopt", _ENOENT, (ArgumentCheck(1, equal_to=_IPPROTO_TCP), ArgumentCheck(2, equal_to=_TCP_ULP))),
    # A pair of stream or seqpacket sockets stays connected to each other; datagram sockets can be connected elsewhere,
    # and SOCK_RAW creates datagram sockets too.
    SeccompRule("socketpair", _EAFNOSUPPORT, _exclude_values(0, (_AF_UNIX,))),
    SeccompRule("socketpair", checks=_exclude_values(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_TYPE_MASK)),
    # Devices.
    *(SeccompRule("mknod", checks=(ArgumentCheck(1, mask=_S_IFMT, equal_to=kind),)) for kind in (_S_IFCHR, _S_IFBLK)),
    *(SeccompRule("mknodat", checks=(ArgumentCheck(2, mask=_S_IFMT, equal_to=kind),)) for kind in (_S_IFCHR, _S_IFBLK)),
    # A setuid or setgid file created as root would work for every user outside.
    SeccompRule("chmod fchmod creat mknod", checks=(ArgumentCheck(1, any_bits=_SET_ID_BITS),)),
    SeccompRule("fchmodat fchmodat2 mknodat", checks=(ArgumentCheck(2, any_bits=_SET_ID_BITS),)),
    SeccompRule("open", checks=(ArgumentCheck(1, any_bits=_CREATE_FLAGS), ArgumentCheck(2, any_bits=_SET_ID_BITS))),
    SeccompRule("openat", checks=(ArgumentCheck(2, any_bits=_CREATE_FLAGS), ArgumentCheck(3, any_bits=_SET_ID_BITS))),
    # Limits and priorities of other processes, such as the worker, which monitors the limits.
    SeccompRule("prlimit64 sched_setscheduler sched_setparam sched_setattr setpriority", checks=_OTHER_PROCESS),
    SeccompRule("setpriority", checks=(ArgumentCheck(1, equal_to=0, negated=True),)),
)


def read_call_numbers(machine: str) -> dict[str, int]:
    """Return the numbers of the system calls in the rules, by name, without those that a machine does not have."""
    with Path(__file__).with_name("system_call_numbers.csv").open(encoding="ascii") as file:
        return {row["name"]: int(row[machine]) for row in csv.DictReader(file) if row[machine]}


def build_filter(machine: str) -> bytes:
    """Build the program for a machine, as an array of `struct sock_filter`."""
    instructions: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_IF_EQUAL, 1, 0, MACHINES[machine]),
        (_RETURN, 0, 0, _RETURN_KILL),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        instructions += [(_IF_ANY_BIT, 0, 1, _X32_BIT), (_RETURN, 0, 0, _RETURN_KILL)]
    instructions += [(_IF_GREATER, 0, 1, LAST_CALL_NUMBER), (_RETURN, 0, 0, _RETURN_ERRNO | _ENOSYS)]
    numbers = read_call_numbers(machine)
    for rule in RULES:
        for call in filter(numbers.__contains__, rule.system_calls.split()):
            instructions += _build_rule(numbers[call], rule)
    instructions.append((_RETURN, 0, 0, _RETURN_ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)


def _build_rule(call_number: int, rule: SeccompRule) -> Iterator[_Instruction]:
    """Build the instructions that refuse a call. The accumulator contains the call number before and after them."""
    instructions: list[_Instruction] = [(_RETURN, 0, 0, _RETURN_ERRNO | rule.errno)]
    for check in reversed(rule.checks):
        instructions = [*check.to_instructions(len(instructions)), *instructions]
    yield (_IF_EQUAL, 0, len(instructions), call_number)
    yield from instructions
    if rule.checks:
        yield (_LOAD, 0, 0, _NUMBER_OFFSET)


def generate_filters() -> dict[Path, bytes]:
    """Return the filters that are shipped next to this file, by path."""
    return {Path(__file__).with_name(f"{machine}.bpf"): build_filter(machine) for machine in MACHINES}
