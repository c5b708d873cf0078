"""Launching CUDA kernels without a GPU: a driver of our own notes what it is asked to launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from minicompile.runtime.compiler import compiler
from minicompile.runtime.launch_cuda import _native

from .fake_driver import KERNELS, run_beside

SCRIPT = """
import ctypes
from minicompile.runtime import launch_cuda
driver = ctypes.CDLL("libcuda.so.1")
driver.noted.restype = ctypes.POINTER(ctypes.c_longlong)
launch_cuda.torch._C._cuda_getCurrentRawStream = lambda device: 7000 + device
launch_cuda.torch._C._cuda_getDevice = lambda: 0
if {ctypes_door}:
    launch_cuda._native = None

class Tensor:
    def __init__(self, address): self.address = address
    def data_ptr(self): return self.address

passed_on = []
def kernel(grid=3, aligned=True, device=0):
    return launch_cuda.cuda_kernel(launch_cuda.Launch("k", 1234, grid, 128, 4096, 2, (5, -6), 2, device, aligned,
                                                      lambda *tensors: passed_on.append(tensors)))

a, b, odd = Tensor(0x7F0000000010), Tensor(0), Tensor(0x7F0000000014)
kernel()(a, b)
seen = driver.noted()[:22]
assert seen[:9] == [1234, 3, 1, 1, 128, 1, 1, 4096, 7000], seen
assert seen[16:22] == [a.address, 0, 5, -6, 0, 0], seen
kernel()(a, odd)
assert passed_on == [(a, odd)]
kernel(aligned=False)(a, odd)
assert driver.noted()[17] == odd.address and len(passed_on) == 1
kernel(device=1)(a, b)
assert len(passed_on) == 2
driver.drop_context()  # as in a new thread
kernel()(a, b)
driver.drop_context()
kernel(device=1)(a, b)
assert len(passed_on) == 3 and driver.how_many() == 3
driver.drop_context()
try:
    kernel(grid=99)(a, b)
    raise SystemExit("no error")
except RuntimeError as error:
    assert "CUDA error 1" in str(error), error
if not {ctypes_door}:
    def run(*steps, tensors=3):
        def otherwise(*tensors):
            passed_on.append(tensors)
            return "otherwise"
        return launch_cuda._native.Run(steps, tensors, otherwise)

    straight, apart = ((0, 0), (1, 0)), ((1, 32), (0, 0))
    before = driver.how_many()
    assert run((kernel(), straight), (kernel(grid=4), apart))(a, b, odd) is None
    seen = driver.noted()[:22]
    assert driver.how_many() == before + 2 and seen[:9] == [1234, 4, 1, 1, 128, 1, 1, 4096, 7000], seen
    assert seen[16:22] == [32, a.address, 5, -6, 0, 0], seen
    beyond = ((1, 0), (2, 0))
    for second in ((kernel(), beyond), (kernel(), ((1, 4), (0, 0))), (kernel(device=1), straight)):
        assert run((kernel(), straight), second)(a, b, odd) == "otherwise" and passed_on.pop() == (a, b, odd)
    assert driver.how_many() == before + 2
    driver.set_device(1)
    assert run((kernel(), straight))(a, b, odd) == "otherwise" and passed_on.pop() == (a, b, odd)
    assert run((kernel(device=1), straight))(a, b, odd) is None and driver.noted()[8] == 7001
    driver.set_device(0)
    assert run((kernel(aligned=False), beyond))(a, b, odd) is None and driver.noted()[17] == odd.address
    before = driver.how_many()
    try:
        run((kernel(), straight), (kernel(grid=99), straight), (kernel(), straight))(a, b, odd)
        raise SystemExit("no error")
    except RuntimeError as error:
        assert "CUDA error 1" in str(error), error
    assert driver.how_many() == before + 2
if not {ctypes_door}:
    for wrong in ((), (a,), (a, b, a)):
        try:
            kernel()(*wrong)
            raise SystemExit("no error")
        except TypeError:
            pass
    import gc, weakref
    held = kernel()
    gc.collect()
    print(held)
"""


@pytest.mark.parametrize("ctypes_door", [False, True])
def test_what_the_driver_is_asked_for(tmp_path: Path, ctypes_door: bool) -> None:
    if compiler() is None or (_native is None and not ctypes_door):
        pytest.skip("no C compiler, or the C extension was not built")
    run_beside(KERNELS, SCRIPT.format(ctypes_door=ctypes_door), tmp_path)
