#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
fuse - a file system that copies by itself, as servers of a network do: copy_file_range() is one message to it, and the kernel
sees no byte of it pass. Two files, `in` (1 MiB) and `out`; what is copied is there to be read.

usage: tests/run/fuse.py DIRECTORY      says "mounted", and ends when it is unmounted; root
"""
import ctypes
import errno
import os
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET, COPY_FILE_RANGE = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 29, 36, 42, 47)
ROOT, NAMES = 1, {b"in": 2, b"out": 3}  # node ids
FILES = {2: bytearray(b"i" * (1 << 20)), 3: bytearray(1 << 20)}
VALID_S = 3600
BUFFER = 1 << 17


def attributes(node):
    """struct fuse_attr"""
    size, mode = (len(FILES[node]), 0o100600) if node in FILES else (0, 0o40755)
    return struct.pack("=6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def copy(node, body):
    """struct fuse_copy_file_range_in; how much it was."""
    _, at, to, _, to_at, count, _ = struct.unpack_from("=7Q", body)
    data = FILES[node][at:at + count]
    FILES[to][to_at:to_at + len(data)] = data
    return struct.pack("=II", len(data), 0)


def answer(opcode, node, body):
    """What is said to a request; an errno; None where nothing is."""
    if opcode == INIT:  # 7.31, without any flag
        return struct.pack("=4I2HIIHHI7I", 7, 31, 0, 0, 12, 9, 4096, 1, 1, 0, 0, *[0] * 7)
    if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
        return None
    if opcode == LOOKUP:
        found = NAMES.get(body.rstrip(b"\0"))
        return struct.pack("=4Q2I", found, 1, VALID_S, VALID_S, 0, 0) + attributes(found) if found else errno.ENOENT
    if opcode == GETATTR:
        return struct.pack("=Q2I", VALID_S, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("=Q2I", node, 0, 0)
    if opcode == READ:
        _, at, count = struct.unpack_from("=QQI", body)
        return bytes(FILES[node][at:at + count])
    if opcode == STATFS:
        return struct.pack("=5Q10I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *[0] * 6)
    if opcode in (FLUSH, RELEASE, RELEASEDIR):
        return b""
    return copy(node, body) if opcode == COPY_FILE_RANGE else errno.ENOSYS


def main():
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"fuse", sys.argv[1].encode(), b"fuse", 0, f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()):
        sys.exit(f"fuse: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    while True:
        try:
            request = os.read(fd, BUFFER)
        except OSError as e:
            if e.errno == errno.ENODEV:  # unmounted
                return
            if e.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):  # the request was taken back
                continue
            raise
        _, opcode, unique, node = struct.unpack_from("=IIQQ", request)
        said = answer(opcode, node, request[40:])
        if said is not None:
            error, data = (0, said) if isinstance(said, bytes) else (-said, b"")
            os.write(fd, struct.pack("=IiQ", 16 + len(data), error, unique) + data)


main()
