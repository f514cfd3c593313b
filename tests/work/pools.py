# SPDX-License-Identifier: Apache-2.0
"""
Pools of processes as Python programs use them, with what they share: locks, semaphores and memory in /dev/shm, a manager's
socket. A step of tests/work/larger; prints the same wherever it runs. It imports little, since each worker does it again.
"""
import concurrent.futures
import ctypes
import multiprocessing
import multiprocessing.shared_memory
import os


def square(n):
    return n * n


def wait_and_add(lock, gate, total):
    gate.wait()
    for _ in range(200):
        with lock:
            total.value += 1


def named(shared_name):
    """What a pool's worker does with memory that another made: by its name, in /dev/shm."""
    shared = multiprocessing.shared_memory.SharedMemory(shared_name)
    shared.buf[0] += 1
    return shared.buf[0]


def main():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            print(method, sum(pool.map(square, range(200), chunksize=50)))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        print(sum(threads.map(square, range(100))))
    context = multiprocessing.get_context("fork")
    lock, gate, total = context.Lock(), context.Barrier(3), context.Value("i", 0, lock=False)
    children = [context.Process(target=wait_and_add, args=(lock, gate, total)) for _ in range(2)]
    for child in children:
        child.start()
    gate.wait()
    for child in children:
        child.join()
    print(total.value, [child.exitcode for child in children])
    with context.Manager() as manager:  # a server at a unix socket below TMPDIR
        shared = manager.dict()
        with context.Pool(2, maxtasksperchild=2) as pool:
            pool.starmap(shared.__setitem__, [(i, i * i) for i in range(8)], chunksize=1)
        print(sorted(shared.items()))
    memory_block = multiprocessing.shared_memory.SharedMemory(create=True, size=100000)
    with context.Pool(1) as pool:
        print([pool.apply(named, (memory_block.name,)) for _ in range(3)], memory_block.buf[0])
    memory_block.close()
    memory_block.unlink()
    libc = ctypes.CDLL(None, use_errno=True)  # a POSIX semaphore that others find by its name
    libc.sem_open.restype = ctypes.c_void_p
    first = libc.sem_open(b"/cordon-work", os.O_CREAT | os.O_EXCL, 0o600, 1)
    second = libc.sem_open(b"/cordon-work", 0)
    print(bool(first), first == second, libc.sem_wait(ctypes.c_void_p(first)), libc.sem_trywait(ctypes.c_void_p(second)))
    print(libc.sem_unlink(b"/cordon-work"), [n for n in os.listdir("/dev/shm") if "cordon-work" in n])


if __name__ == "__main__":
    main()
