# SPDX-License-Identifier: Apache-2.0
"""
loop - an attacker that tries, until it is killed, to write to a file and to reach a listener that it may not, and beside each of
these one that it may.

usage: loop.py COUNTERS OUT OUT_PORT TWIN TWIN_PORT    (files by path; ports on 127.0.0.1)

COUNTERS is a file of 6 numbers of 64 bits: rounds, writes that got through, connections that got through, twins of each that
failed, and the last errno of a twin. It is mapped, so who looks at it needs not ask.
"""
import mmap
import os
import socket
import struct
import sys
import time

counters, out, out_port, twin, twin_port = sys.argv[1:]
fd = os.open(counters, os.O_RDWR)
shared = mmap.mmap(fd, 4096)
counts = [0] * 6


def write(path):
    f = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(f, b"x")
    os.close(f)


def connect(port):
    s = socket.socket()
    try:
        s.settimeout(5)
        s.connect(("127.0.0.1", port))
    finally:
        s.close()


def works(f, argument):
    try:
        f(argument)
        return 1
    except OSError as e:
        counts[5] = e.errno or 0
        return 0


while True:
    counts[1] += works(write, out)
    counts[2] += works(connect, int(out_port))
    counts[5] = 0
    counts[3] += not works(write, twin)
    counts[4] += not works(connect, int(twin_port))
    counts[0] += 1
    shared[:48] = struct.pack("=6Q", *counts)
    time.sleep(0.004)  # leaves the one processor of a guest to the others
