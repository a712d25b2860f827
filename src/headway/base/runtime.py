"""The machine that we run on: device, memory allocator, threads, what to record about it."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.base.errors import UserError, unknown

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h> of glibc
_LARGEST = 2**31 - 1
_LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Launch(NamedTuple):
    """Which of the processes that torchrun started this one is; `local` counts on its machine."""

    rank: int
    size: int
    local: int


def launched() -> Launch:
    """What torchrun says of this process; the only one, if nothing."""
    if not all(name in os.environ for name in _LAUNCHED):
        return Launch(0, 1, 0)
    rank, size, local = (os.environ.get(name, "0") for name in (*_LAUNCHED[:2], "LOCAL_RANK"))
    return Launch(int(rank), int(size), int(local))


def pick_device(name: str = "auto") -> torch.device:
    """The torch device of that name; `auto` takes CUDA, then MPS, then the CPU.

    Raises UserError if the name is unknown or this machine has no such device.
    """
    import torch

    kind, _, number = name.partition(":")
    if name not in DEVICES and not (kind == "cuda" and number.isdecimal()):
        raise unknown("device", name, [*DEVICES, "cuda:N"])
    here = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }
    if kind == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if here[kind]))
    if here[kind] <= int(number or 0):
        raise UserError(f"this machine has no device {name}", todo="use --device auto")
    return torch.device(name)


def keep_pages() -> bool:
    """Ask glibc to keep freed memory: fresh pages at every step cost more than the arithmetic.

    True if the C library has the switch (Linux with glibc); elsewhere nothing is done.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        set_option = libc.mallopt
    except (OSError, AttributeError):
        return False
    # older C libraries refuse more than half a heap; without this one the other only harms
    kept = set_option(_M_MMAP_THRESHOLD, _LARGEST) or set_option(_M_MMAP_THRESHOLD, 32 << 20)
    return bool(kept and set_option(_M_TRIM_THRESHOLD, _LARGEST))


def return_pages() -> bool:
    """Give memory that was freed back to the system, where glibc had kept it for itself.

    True if there was some; nothing is done elsewhere.
    """
    try:
        return bool(ctypes.CDLL("libc.so.6").malloc_trim(0))
    except (OSError, AttributeError):
        return False


def environment() -> dict[str, Any]:
    """Versions, machine and git revision, for `environment.json`."""
    from importlib import metadata  # every start of the command line would take longer

    import torch

    packages = ("headway", "torch", "numpy", "tokenizers", "safetensors", "babel", "num2words")
    versions = {}
    for name in packages:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "packages": versions,
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "accelerators": [
            torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
        ],
        "git": _git_revision(),
        # names of files need not be UTF-8, but this record is
        "command": [word.encode("utf-8", "backslashreplace").decode() for word in sys.argv],
    }


def memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def processor() -> str:
    """The name of the processor, as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git_revision() -> str | None:
    """The revision of the source tree that this package runs from, or None.

    `describe --dirty` would refresh the index under a lock, which stays in the repository if the
    run is killed meanwhile; `status` can do without.
    """
    revision = _git("describe", "--always", "--abbrev=12")
    changed = _git("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    return f"{revision}-dirty" if revision and changed else revision or None


def _git(*words: str) -> str | None:
    """What git says of that source tree, None if it cannot."""
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        answer = subprocess.run(
            ["git", "-C", folder, *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
