# SPDX-License-Identifier: Apache-2.0
"""
An io_uring by its system calls: one operation at a time, its result. For rows that do by a ring what others do by a
call; used outside, too, to make rings that are passed in. Needs no privilege.
"""

import ctypes
import errno
import mmap
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

SETUP, ENTER, REGISTER = 425, 426, 427
SQPOLL = 2  # flag of set-up
ASYNC, FIXED_FILE = 16, 1  # flags of an entry
OFF_SQ, OFF_CQ, OFF_SQES = 0, 0x8000000, 0x10000000
AT_FDCWD = -100

READ_FIXED, FALLOCATE, OPENAT, OPENAT2, READ, WRITE, SPLICE = 4, 17, 18, 28, 22, 23, 30
RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT = 35, 36, 37, 38, 39
FSETXATTR, SETXATTR, FTRUNCATE = 41, 42, 55
NOP, WRITEV = 0, 2


def call(number, *args):
    value = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in (number,) + args])
    if value < 0:
        err = ctypes.get_errno()
        raise OSError(err, os.strerror(err))
    return value


def available():
    try:
        Ring(2).close()
        return True
    except OSError:
        return False


class Ring:
    kept = []

    def __init__(self, entries, flags=0, fd=None, params=None):
        self.params = bytearray(params or struct.pack("=IIIII", 0, 0, flags, 0, 50).ljust(120, b"\0"))
        if fd is None:
            raw = (ctypes.c_char * 120).from_buffer(self.params)
            fd = call(SETUP, entries, ctypes.byref(raw))
        self.fd, self.flags, self.entries = fd, flags, entries
        sq = struct.unpack_from("=10I", self.params, 40)
        cq = struct.unpack_from("=10I", self.params, 80)
        self.sq_head, self.sq_tail, self.sq_mask, _, self.sq_flags, _, self.sq_array = sq[:7]
        self.cq_head, self.cq_tail, self.cq_mask, _, _, self.cq_cqes = cq[:6]
        self.sq = mmap.mmap(fd, self.sq_array + entries * 4, mmap.MAP_SHARED, offset=OFF_SQ)
        self.cq = mmap.mmap(fd, self.cq_cqes + 2 * entries * 16, mmap.MAP_SHARED, offset=OFF_CQ)
        self.sqes = mmap.mmap(fd, entries * 64, mmap.MAP_SHARED, offset=OFF_SQES)

    def keep(self):
        """Lives as long as the process."""
        Ring.kept.append(self)
        return self

    def close(self):
        os.close(self.fd)

    def get(self, memory, offset):
        return struct.unpack_from("=I", memory, offset)[0]

    def register_personality(self):
        return call(REGISTER, self.fd, 9, None, 0)

    def do(self, opcode, fd=AT_FDCWD, addr=0, length=0, off=0, op_flags=0, flags=0, personality=0, file_index=0, addr3=0):
        """The result of one operation; a failure is an OSError. Pointers: bytes or ctypes objects."""
        hold = []

        def address(x):
            if isinstance(x, bytes):
                x = ctypes.create_string_buffer(x)
            if not isinstance(x, int):
                hold.append(x)
                x = ctypes.addressof(x)
            return x

        entry = struct.pack("=BBHiQQIIQHHiQQ", opcode, flags, 0, fd, address(off), address(addr), length, op_flags, 0, 0, personality,
                            file_index, address(addr3), 0)
        tail = self.get(self.sq, self.sq_tail)
        slot = tail & self.get(self.sq, self.sq_mask)
        self.sqes[slot * 64:slot * 64 + 64] = entry
        struct.pack_into("=I", self.sq, self.sq_array + slot * 4, slot)
        struct.pack_into("=I", self.sq, self.sq_tail, tail + 1)
        wake = 3 if self.flags & SQPOLL else 1  # GETEVENTS, SQ_WAKEUP
        while self.get(self.cq, self.cq_head) == self.get(self.cq, self.cq_tail):
            try:
                call(ENTER, self.fd, 0 if self.flags & SQPOLL else self.get(self.sq, self.sq_tail) - self.get(self.sq, self.sq_head), 1, wake, None, 0)
            except InterruptedError:
                pass
        head = self.get(self.cq, self.cq_head)
        _, result, _ = struct.unpack_from("=QiI", self.cq, self.cq_cqes + (head & self.get(self.cq, self.cq_mask)) * 16)
        struct.pack_into("=I", self.cq, self.cq_head, head + 1)
        if result < 0:
            raise OSError(-result, f"{os.strerror(-result)} (operation {opcode})")
        return result


UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
