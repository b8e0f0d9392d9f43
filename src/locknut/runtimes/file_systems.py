"""On which kind of file system something is: a network's locks are only as good as its server."""

from __future__ import annotations

import sys
from typing import Final

# From linux/magic.h and the file systems' own sources.
_NETWORK: Final = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFE534D42: "SMB2",
    0xFF534D42: "CIFS",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x01021997: "9p",
    0x00C36400: "Ceph",
    0x65735546: "FUSE",
    0x0BD00BD0: "Lustre",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
    0xAAD7AAEA: "PanFS",
    0x786F4256: "vboxsf",
}

_OVERLAY: Final = 0x794C7630


def network_kind(fd: int) -> str | None:
    """The name of the network file system that an open file or directory is on; None: on none that
    is known.
    """
    return _NETWORK.get(_kind(fd)) if sys.platform.startswith("linux") else None


def is_overlay(fd: int) -> bool:
    """Whether it is in the layers that a container's file system is made of."""
    return sys.platform.startswith("linux") and _kind(fd) == _OVERLAY


def _kind(fd: int) -> int:
    """The type of the file system, which comes first in `struct statfs`; 0 if it will not say."""
    try:
        import ctypes  # only here: it takes long to import
    except ImportError as error:  # such as: its library cannot be opened
        raise OSError(0, str(error)) from error

    buffer = ctypes.create_string_buffer(256)
    if ctypes.CDLL(None, use_errno=True).fstatfs(fd, buffer) != 0:
        return 0
    return int(ctypes.c_long.from_buffer(buffer).value) & 0xFFFFFFFF
