"""The seccomp filters: the shipped files match the source, and the programs decide correctly."""

from __future__ import annotations

import platform
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.safety.seccomp import LAST_CALL_NUMBER, MACHINES, RULES, build_filter, generate_filters, read_call_numbers

CALL_NUMBERS = {machine: read_call_numbers(machine) for machine in MACHINES}

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
EPERM, ENOENT, ENOSYS, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EAFNOSUPPORT = (
    0x50000 | number for number in (1, 2, 38, 93, 94, 97)
)
NONBLOCK_CLOEXEC = 0o2004000
ICMP, TCP, UDP, DCCP, SCTP, UDP_LITE, RAW, MPTCP = 1, 6, 17, 33, 132, 136, 255, 262
OTHER_CONVENTION = {"x86_64": 0x40000003, "aarch64": 0x40000028}  # i386, 32-bit ARM


def decide(program: bytes, number: int, arguments: tuple[int, ...] = (), audit: int | None = None) -> int:
    """Run a filter like the kernel, with an interpreter of the BPF instructions that it uses."""
    audit = struct.unpack_from("<HBBI", program, 8)[3] if audit is None else audit
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(*arguments, *[0] * (6 - len(arguments))))
    steps = list(struct.iter_unpack("<HBBI", program))
    at = value = 0
    while True:
        operation, if_true, if_false, operand = steps[at]
        at += 1
        if operation == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
        elif operation == 0x54:
            value &= operand
        elif operation == 0x06:
            return int(operand)
        else:
            holds = {0x15: value == operand, 0x25: value > operand, 0x45: bool(value & operand)}[operation]
            at += if_true if holds else if_false


class Case(NamedTuple):
    call: str
    arguments: tuple[int, ...]
    decision: int


CASES = [
    Case("socket", (2, 1), ALLOWED),
    Case("socket", (10, 2), ALLOWED),
    *(Case("socket", (family, 1 | NONBLOCK_CLOEXEC, TCP), ALLOWED) for family in (2, 10)),
    *(Case("socket", (family, 2 | NONBLOCK_CLOEXEC, UDP), ALLOWED) for family in (2, 10)),
    *(
        Case("socket", (2, kind, protocol), EPROTONOSUPPORT)
        for kind in (1, 2 | NONBLOCK_CLOEXEC)
        for protocol in (ICMP, DCCP, SCTP, UDP_LITE, RAW, MPTCP, 58)
    ),
    Case("socket", (10, 1, UDP), EPROTONOSUPPORT),
    Case("socket", (10, 2, TCP), EPROTONOSUPPORT),
    Case("socket", (2, 1, (1 << 32) | MPTCP), EPROTONOSUPPORT),
    *(Case("socket", (2, kind | NONBLOCK_CLOEXEC), ESOCKTNOSUPPORT) for kind in range(16) if kind not in (1, 2)),
    Case("socket", (10, 3, ICMP), ESOCKTNOSUPPORT),
    Case("setsockopt", (3, TCP, 31), ENOENT),
    Case("setsockopt", (3, TCP, 1), ALLOWED),
    Case("setsockopt", (3, 1, 31), ALLOWED),
    *(Case("socket", (family, 1), EAFNOSUPPORT) for family in (0, 1, 16, 17, 31, 38, 40, 44)),
    Case("socket", ((1 << 32) | 1, 1), EAFNOSUPPORT),  # the kernel takes the lower half
    Case("socketpair", (1, 1 | 0o2000000), ALLOWED),
    Case("socketpair", (1, 5), ALLOWED),
    Case("socketpair", (1, 5 | 0o4000), ALLOWED),
    *(Case("socketpair", (1, kind | 0o2004000), EPERM) for kind in range(16) if kind not in (1, 5)),
    Case("socketpair", (1, (1 << 32) | 3), EPERM),
    Case("socketpair", (16, 1), EAFNOSUPPORT),
    Case("ioctl", (0, 0x5412), EPERM),
    Case("ioctl", (0, (1 << 32) | 0x5412), EPERM),
    Case("ioctl", (0, 0x541C), EPERM),
    Case("ioctl", (0, 0x5413), ALLOWED),
    Case("clone", (0x01200011,), ALLOWED),  # fork
    Case("clone", (0x003D0F00,), ALLOWED),  # a thread
    *(Case("clone", (1 << bit,), EPERM) for bit in (17, 25, 26, 27, 28, 29, 30)),
    Case("clone3", (), ENOSYS),
    Case("openat", (0, 0, 0o100, 0o644), ALLOWED),
    Case("openat", (0, 0, 0o100, 0o4755), EPERM),
    Case("openat", (0, 0, 0o20200000, 0o2755), EPERM),
    Case("openat", (0, 0, 0, 0o4755), ALLOWED),
    Case("openat2", (), ENOSYS),
    Case("fchmod", (3, 0o1777), ALLOWED),
    Case("fchmod", (3, 0o4755), EPERM),
    Case("fchmodat", (0, 0, 0o2755), EPERM),
    Case("fchmodat2", (0, 0, 0o4755), EPERM),
    Case("mknodat", (0, 0, 0o010644), ALLOWED),
    Case("mknodat", (0, 0, 0o020644, 1), EPERM),
    Case("mknodat", (0, 0, 0o060644, 1), EPERM),
    Case("mknodat", (0, 0, 0o104755), EPERM),
    Case("prlimit64", (0, 7), ALLOWED),
    Case("prlimit64", (1, 7), EPERM),
    Case("setpriority", (0, 0, 5), ALLOWED),
    Case("setpriority", (0, 1, 19), EPERM),
    Case("setpriority", (2, 0, 19), EPERM),
    Case("sched_setscheduler", (1, 5), EPERM),
    *(Case(f"io_uring_{name}", (), ENOSYS) for name in ("setup", "enter", "register")),
    *(
        Case(call, (), EPERM)
        for rule in RULES[:6]
        for call in rule.system_calls.split()
        if all(call in numbers for numbers in CALL_NUMBERS.values())
    ),
]


def test_this_machine_has_a_filter() -> None:
    assert f"{platform.machine()}.bpf" in {path.name for path in generate_filters() if path.exists()}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.call} {case.arguments}")
def test_filter_decisions(machine: str, case: Case) -> None:
    assert decide(build_filter(machine), CALL_NUMBERS[machine][case.call], case.arguments) == case.decision


@pytest.mark.parametrize("call", sorted(CALL_NUMBERS["x86_64"].keys() - CALL_NUMBERS["aarch64"].keys()))
def test_x86_only_calls_are_refused_there(call: str) -> None:
    arguments = {"open": (0, 0o100, 0o4755), "mknod": (0, 0o060644), "chmod": (0, 0o4755), "creat": (0, 0o4755)}
    assert decide(build_filter("x86_64"), CALL_NUMBERS["x86_64"][call], arguments.get(call, ())) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**32 - 1), arguments=st.tuples(*[st.integers(0, 2**64 - 1)] * 6))
def test_calls_without_a_rule_are_allowed_and_unknown_ones_do_not_exist(
    machine: str, number: int, arguments: tuple[int, ...]
) -> None:
    program = build_filter(machine)
    named = {CALL_NUMBERS[machine].get(call) for rule in RULES for call in rule.system_calls.split()}
    decision = decide(program, number, arguments)
    if machine == "x86_64" and number & 0x40000000:
        assert decision == KILLED
    elif number > LAST_CALL_NUMBER:
        assert decision == ENOSYS
    elif number not in named:
        assert decision == ALLOWED
    assert decide(program, number, arguments, OTHER_CONVENTION[machine]) == KILLED


def test_dangerous_calls_are_listed() -> None:
    refused = {case.call for case in CASES if case.decision == EPERM}
    assert refused > {
        *("mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "setns", "unshare", "ptrace"),
        *("process_vm_readv", "process_vm_writev", "pidfd_getfd", "keyctl", "add_key", "request_key", "bpf"),
        *("perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load", "init_module", "open_by_handle_at"),
    }


def test_every_call_that_has_a_number_has_a_rule() -> None:
    assert {call for rule in RULES for call in rule.system_calls.split()} == set().union(*CALL_NUMBERS.values())
