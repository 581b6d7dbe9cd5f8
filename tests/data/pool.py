#!/usr/bin/python3
"""pool.py REPORT - a multiprocessing pool that holds a known amount of memory at one time.

Four workers fill 30 MB each and hold it until the parent has read the PSS of all five
processes from the kernel; that sum goes to REPORT, in bytes. What is computed goes to the
standard output and is the same each time.
"""
import multiprocessing
import os
import sys
import time

WORKERS = 4
SIZE = 30 << 20
HOLD_SECONDS = 1.2


def pss_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        for line in rollup:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"no PSS of {pid}")


def prepare(filled_, release_):
    global filled, release
    filled, release = filled_, release_


def work(number):
    data = bytearray(SIZE)
    for offset in range(0, SIZE, 4096):
        data[offset] = 1
    total = sum(i * i % (number + 7) for i in range(300000))
    filled.release()
    release.wait(60)
    return number, total, len(data)


def main():
    context = multiprocessing.get_context("fork")
    filled_, release_ = context.Semaphore(0), context.Event()
    with context.Pool(WORKERS, prepare, (filled_, release_)) as pool:
        results = pool.map_async(work, range(WORKERS), chunksize=1)
        for _ in range(WORKERS):
            if not filled_.acquire(timeout=60):
                sys.exit("a worker did not come to be")
        held = sum(pss_bytes(child.pid) for child in multiprocessing.active_children())
        held += pss_bytes(os.getpid())
        time.sleep(HOLD_SECONDS)
        release_.set()
        for line in results.get(60):
            print(*line)
    with open(sys.argv[1], "w", encoding="ascii") as report:
        print(held, file=report)
    return 3


if __name__ == "__main__":
    sys.exit(main())
