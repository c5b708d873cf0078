"""Runs of CUDA kernels as one graph, without a GPU: when there is one, with which addresses, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest

from minicompile.runtime.compiler import compiler
from minicompile.runtime.launch_cuda import _native

from .fake_driver import GRAPHS, KERNELS, run_beside

pytestmark = pytest.mark.skipif(
    compiler() is None or not hasattr(_native, "Run"), reason="no C++ compiler, or the C launcher was not built"
)

SETUP = """
import ctypes, gc, threading, time
from minicompile.runtime import launch_cuda
driver = ctypes.CDLL("libcuda.so.1")
driver.counted.restype = ctypes.POINTER(ctypes.c_int)
driver.last_launched.restype = ctypes.POINTER(ctypes.c_longlong)
stream = 7000
launch_cuda.torch._C._cuda_getCurrentRawStream = lambda device: stream

REFUSED, CAPTURED, PRIORITY, NAP = range(4)

class Tensor:
    def __init__(self, address): self.address = address
    def data_ptr(self): return self.address

def kernel(grid):
    return launch_cuda.cuda_kernel(launch_cuda.Launch("k", 1000 + grid, grid, 128, 4096, 2, (5, -6), 2, 0, True, print))

def made():
    steps = (kernel(1), ((0, 0), (1, 0))), (kernel(2), ((1, 32), (2, 0))), (kernel(3), ((2, 0), (0, 16)))
    return launch_cuda._native.Run(steps, 3, print)

def counts():
    "Kernels launched by themselves, graphs launched, nodes changed, graphs and executables alive."
    return (driver.how_many(), *driver.counted()[:4])

def nodes():
    "What the graph launched last launches: function, grid, and addresses of each kernel."
    found = driver.last_launched()
    return [(found[14 * i], found[14 * i + 1], found[14 * i + 8], found[14 * i + 9]) for i in range(found[112])]

a, b, c, d = (Tensor(4096 * i) for i in range(1, 5))
"""

SCRIPTS = {
    "launched from the second call on, and only changed addresses are set": """
run = made()
run(a, b, c)
assert counts() == (3, 0, 0, 0, 0), counts()
run(a, b, c)
assert counts() == (3, 1, 0, 1, 1), counts()
def expected(a, b, c):
    return [(1001, 1, a, b), (1002, 2, b + 32, c), (1003, 3, c, a + 16)]
assert nodes() == expected(4096, 8192, 12288), nodes()
assert driver.last_launched()[10:14] == [5, -6, 0, 0] and driver.last_launched()[4:8] == [128, 1, 1, 4096]
assert driver.counted()[4] == 7000
run(a, b, c)
assert counts() == (3, 2, 0, 1, 1), counts()
run(a, d, c)
assert counts() == (3, 3, 2, 1, 1) and nodes() == expected(4096, 16384, 12288), (counts(), nodes())
run(a, d, c)
assert counts() == (3, 4, 2, 1, 1), counts()
run(b, d, a)
assert counts() == (3, 5, 5, 1, 1) and nodes() == expected(8192, 16384, 4096), (counts(), nodes())
del run
gc.collect()
assert counts()[3:] == (0, 0), counts()
""",
    "a run of one kernel": """
one, other = (launch_cuda._native.Run(((kernel(n), ((0, 0), (1, 0))),), 2, print) for n in (1, 2))
one(a, b)
assert counts() == (1, 0, 0, 0, 0), counts()
one(a, b)
one(a, b)
assert counts() == (1, 2, 0, 1, 1), counts()
one(b, a)
assert counts() == (1, 3, 1, 1, 1) and driver.last_launched()[:2] == [1001, 1], counts()
assert driver.last_launched()[8:12] == [8192, 4096, 5, -6]
for _ in range(3):
    other(a, b)
assert counts() == (2, 5, 1, 2, 2), counts()
driver.set(CAPTURED, 1)
one(a, b)
driver.set(CAPTURED, 0)
assert counts() == (3, 5, 1, 2, 2), counts()
driver.set(REFUSED, 4)
one(a, b)
driver.set(REFUSED, 0)
one(a, b)
assert counts() == (5, 5, 2, 2, 2), counts()
del one, other
gc.collect()
assert counts()[3:] == (0, 0), counts()
""",
    "each stream has its own; those after the fourth have none": """
run = made()
for stream in (7001, 7002, 7003, 7004, 7005, 7006):
    for _ in range(3):
        run(a, b, c)
assert counts() == (4 * 3 + 2 * 9, 8, 0, 4, 4), counts()
stream = 7002
run(a, b, c)
assert counts()[1] == 9 and driver.counted()[4] == 7002
del run
gc.collect()
assert counts()[3:] == (0, 0), counts()
""",
    "captured by somebody: kernel by kernel, and afterwards again as one": """
run = made()
run(a, b, c)
for status in (1, 2, 9):  # active, invalidated, an error
    driver.set(CAPTURED, status)
    run(a, b, c)
assert counts() == (12, 0, 0, 0, 0), counts()
driver.set(CAPTURED, 0)
run(a, b, c)
driver.set(CAPTURED, 1)
run(b, a, c)
driver.set(CAPTURED, 0)
run(a, b, c)
assert counts() == (15, 2, 0, 1, 1), counts()
""",
    "with a priority: kernel by kernel": """
run = made()
driver.set(PRIORITY, -1)
for _ in range(3):
    run(a, b, c)
assert counts() == (9, 0, 0, 0, 0), counts()
""",
    "refused by the driver: kernel by kernel for good": """
for step in (1, 2, 3, 4):
    run = made()
    run(a, b, c)
    if step > 2:
        run(a, b, c)
    driver.set(REFUSED, step)
    before = counts()
    run(b, c, d)
    driver.set(REFUSED, 0)
    run(b, c, d)
    assert counts()[:2] == (before[0] + 6, before[1]), (step, counts())
    del run
    gc.collect()
    assert counts()[3:] == (0, 0), (step, counts())
""",
    "used by another thread: kernel by kernel": """
run = made()
for _ in range(2):
    run(a, b, c)
driver.set(NAP, 300000)
thread = threading.Thread(target=run, args=(b, c, d))
thread.start()
while counts()[1] < 2:
    time.sleep(0.001)
run(d, c, b)
assert counts()[:2] == (6, 2), counts()
thread.join()
driver.set(NAP, 0)
run(a, b, c)
assert counts()[:2] == (6, 3) and nodes()[0] == (1001, 1, 4096, 8192), (counts(), nodes())
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_as_one_graph(name: str, tmp_path: Path) -> None:
    run_beside(KERNELS + GRAPHS, SETUP + SCRIPTS[name], tmp_path)
