# SPDX-License-Identifier: Apache-2.0
"""
The executor: runs rows where it is started, fenced or not. One request a line on descriptor 0 (a unix
socket of the driver), one answer a line on the same socket. Every part of a row has a process of its own. It is as
privileged as its starter (root). What ends it early makes the driver fail.
"""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
LIMIT_S = 20

control = None
waited = 0.0  # for the driver, in this part
more_pids = []


def check(value):
    """The value of a libc call, or OSError."""
    if value < 0:
        err = ctypes.get_errno()
        raise OSError(err, os.strerror(err))
    return value


def syscall(number, *args):
    """A system call by number: ints, bytes, ctypes objects, None."""
    return check(libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in (number,) + args]))


def send_line(obj):
    control.sendall(json.dumps(obj).encode() + b"\n")


def recv_line():
    """One line, and the descriptors that came with it."""
    data, got = b"", []
    while not data.endswith(b"\n"):
        piece, fds, _, _ = socket.recv_fds(control, 1, 4)
        got += fds
        if not piece:
            return None, got
        data += piece
    return json.loads(data), got


def ask(call, **args):
    """Has the driver do something outside. Returns its answer and the descriptors that it sent."""
    global waited
    begun = time.monotonic()
    send_line({"call": call, "pid": os.getpid(), **args})
    answer, fds = recv_line()
    waited += time.monotonic() - begun
    if "error" in answer:
        raise RuntimeError(f"{call}: {answer['error']}")
    return answer, fds


def child_of_mine(pid):
    """Its events belong to this row too."""
    more_pids.append(pid)
    return pid


def run_child(command, **kw):
    """subprocess.run() of a child whose events belong to this row."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    child_of_mine(p.pid)
    out, err = p.communicate()
    return subprocess.CompletedProcess(command, p.returncode, out, err)


def execute(path, *argv, fd=None):
    """Forks and executes; returns what it prints, or raises the OSError of the exec."""
    out, out_end = os.pipe()
    failed, failed_end = os.pipe()
    pid = child_of_mine(os.fork())
    if pid == 0:
        os.dup2(out_end, 1)
        try:
            if fd is None:
                os.execv(path, [path, *argv])
            syscall(322, fd, b"", (ctypes.c_char_p * (len(argv) + 2))(path.encode(), *[x.encode() for x in argv], None),
                    (ctypes.c_char_p * 1)(None), 0x1000)  # execveat, AT_EMPTY_PATH
        except OSError as e:
            os.write(failed_end, str(e.errno).encode())
        os._exit(1)
    os.close(out_end)
    os.close(failed_end)
    err = os.read(failed, 16)
    text = os.read(out, 4096).decode() if not err else ""
    os.waitpid(pid, 0)
    os.close(out)
    os.close(failed)
    if err:
        raise OSError(int(err), os.strerror(int(err)))
    return text


held, maps = {}, {}


def hold(directory):
    """
    Opens what rows want to have held before the fence: NAME for reading and writing, or as its first part says: ro-NAME
    for reading, dir-NAME a directory, path-NAME with O_PATH; map-NAME is mapped shared, for reading.
    """
    for name in sorted(os.listdir(directory)):
        kind = name.split("-")[0]
        flags = {"ro": os.O_RDONLY, "dir": os.O_RDONLY | os.O_DIRECTORY, "path": os.O_PATH}.get(kind, os.O_RDWR)
        held[name] = os.open(f"{directory}/{name}", flags)
        if kind == "map":
            address = libc.mmap(None, 4096, 1, 1, held[name], 0)
            maps[name] = address
    if os.path.isdir(directory):
        import ring
        import rows_held
        held["ring"] = ring.Ring(8) if ring.available() else None
        held.update(rows_held.sockets())


def run_part(row, part, context):
    """In the child: the result, as a dictionary."""
    from table import Context

    a = Context(context)
    result = {"errno": None, "error": None, "data": None}
    try:
        result["data"] = (row.attack if part == "attack" else row.twin)(a)
    except OSError as e:
        result["errno"] = e.errno
        result["error"] = str(e)
        if e.errno is None:
            result["crash"] = True
    except BaseException as e:  # noqa: whatever it is, it is reported and fails the row
        result["error"] = f"{type(e).__name__}: {e}"
        result["crash"] = True
    result.update(pids=more_pids, waited=waited)
    return result


def serve(request, rows):
    row = rows[request["row"]]
    assert str(row) == request["name"], "driver and executor have different tables"
    read, write = os.pipe()
    start = time.monotonic_ns()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.write(write, json.dumps(run_part(row, request["part"], request["context"])).encode())
        os._exit(0)
    os.close(write)
    # The answer is short: it is there at once and whole. What the child left running keeps the pipe open.
    raw = os.read(read, 65536) if select.select([read], [], [], LIMIT_S)[0] else b""
    os.close(read)
    if not raw:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    answer = json.loads(raw) if raw else {"errno": None, "data": None, "crash": True,
                                          "error": f"ended with status {status}, or not at all"}
    answer.update(pid=pid, start=start, end=time.monotonic_ns())
    send_line(answer)


def main():
    global control
    control = socket.socket(fileno=0)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    import all_rows

    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    if os.environ.get("ATTACK_HELD"):
        hold(os.environ["ATTACK_HELD"])
    send_line({"ready": os.getpid()})
    while True:
        request, _ = recv_line()
        if request is None:
            break
        serve(request, all_rows.ROWS)


if __name__ == "__main__":
    sys.modules["inside"] = sys.modules["__main__"]
    main()
