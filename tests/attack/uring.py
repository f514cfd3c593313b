# SPDX-License-Identifier: Apache-2.0
"""
io_uring without a library: a ring, one request at a time. The layouts are those of linux/io_uring.h. A kernel without
io_uring raises OSError.
"""

import ctypes
import errno
import mmap
import os
import struct
import time

from inside import syscall

NR_SETUP, NR_ENTER = 425, 426
SQPOLL, ASYNC, GETEVENTS, WAKEUP = 1 << 1, 1 << 4, 1, 2
SENDMSG, CONNECT, SEND, SOCKET = 9, 16, 26, 45
NEED_WAKEUP = 1
LIMIT_S = 10


class Ring:
    """Closed with its process. Buffers of a request must be kept by the caller until it ends."""

    def __init__(self, sqpoll=False):
        params = ctypes.create_string_buffer(120)
        struct.pack_into("=5I", params, 0, 0, 0, SQPOLL if sqpoll else 0, 0, 1000)
        self.sqpoll = sqpoll
        self.fd = syscall(NR_SETUP, 4, params)
        entries, cq_entries = struct.unpack_from("=2I", params, 0)
        self.sq = struct.unpack_from("=10I", params, 40)  # head, tail, mask, entries, flags, dropped, array
        self.cq = struct.unpack_from("=10I", params, 80)  # head, tail, mask, entries, overflow, cqes
        self.sq_map = mmap.mmap(self.fd, self.sq[6] + 4 * entries, offset=0)
        self.cq_map = mmap.mmap(self.fd, self.cq[5] + 16 * cq_entries, offset=0x8000000)
        self.sqes = mmap.mmap(self.fd, 64 * entries, offset=0x10000000)

    @staticmethod
    def word(where, at):
        return struct.unpack_from("=I", where, at)[0]

    def run(self, opcode, fd, addr=0, length=0, off=0, flags=0, op_flags=0):
        """The result of one request; raises OSError when it is an error."""
        tail, mask = self.word(self.sq_map, self.sq[1]), self.word(self.sq_map, self.sq[2])
        index = tail & mask
        self.sqes[64 * index:64 * index + 64] = struct.pack("=BBHiQQII", opcode, flags, 0, fd, off, addr, length, op_flags) + bytes(32)
        struct.pack_into("=I", self.sq_map, self.sq[6] + 4 * index, index)
        struct.pack_into("=I", self.sq_map, self.sq[1], (tail + 1) & 0xffffffff)
        if not self.sqpoll:
            syscall(NR_ENTER, self.fd, 1, 1, GETEVENTS, None, 0)
        elif self.word(self.sq_map, self.sq[4]) & NEED_WAKEUP:
            syscall(NR_ENTER, self.fd, 1, 0, WAKEUP, None, 0)
        end = time.monotonic() + LIMIT_S
        head = self.word(self.cq_map, self.cq[0])
        while head == self.word(self.cq_map, self.cq[1]):
            if time.monotonic() > end:
                raise RuntimeError("the request did not end")
            time.sleep(0.001)
        result = struct.unpack_from("=i", self.cq_map, self.cq[5] + 16 * (head & self.word(self.cq_map, self.cq[2])) + 8)[0]
        struct.pack_into("=I", self.cq_map, self.cq[0], (head + 1) & 0xffffffff)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result


def address_of(data):
    """A buffer with these bytes, and its address."""
    buffer = ctypes.create_string_buffer(data, len(data))
    return buffer, ctypes.addressof(buffer)


NO_URING = (errno.ENOSYS, errno.EPERM)
