"""What CUDA's driver alone takes of the host to launch a kernel: the least that each further kernel of a call can cost.

In: nothing but a current device. Out: seconds for a launch of an empty kernel of five addresses from a loop in C, in
bursts that the device's queue holds. It is measured beside the rows, since it differs between machines (3 to 4 µs on
virtual ones)."""

from __future__ import annotations

import statistics
import time

import torch

from minicompile.codegen.cpp import translation_unit
from minicompile.runtime.cpp_build import build_shared_object
from minicompile.runtime.launch import load_kernel

BURST = 400

_SOURCE = r"""
extern "C" void *dlopen(const char *, int);
extern "C" void *dlsym(void *, const char *);
typedef int (*load_function)(void **, const void *);
typedef int (*find_function)(void **, void *, const char *);
typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                               void **, void **);
static const char *const empty_kernel =
  ".version 7.0\n.target sm_70\n.address_size 64\n"
  ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 e) { ret; }\n";

// sizes: launches. Returns the driver's error.
extern "C" int launches(void **buffers, const int64_t *sizes) {
  static void *function, *launch;
  if (function == nullptr) {
    void *driver = dlopen("libcuda.so.1", 2), *module;
    if (int error = ((load_function)dlsym(driver, "cuModuleLoadData"))(&module, empty_kernel)) return error;
    if (int error = ((find_function)dlsym(driver, "cuModuleGetFunction"))(&function, module, "k")) return error;
    launch = dlsym(driver, "cuLaunchKernel");
  }
  void *null = nullptr, *params[5] = {&null, &null, &null, &null, &null};
  for (int64_t i = 0; i < sizes[0]; ++i)
    if (int error = ((launch_function)launch)(function, 64, 1, 1, 128, 1, 1, 0, nullptr, params, nullptr)) return error;
  return 0;
}
"""


def launch_seconds() -> float:
    """The median of 21 bursts. Raises KernelError with the driver's number where it refuses."""
    kernel = load_kernel(build_shared_object(translation_unit([_SOURCE])), "launches", 0, 1)
    found = []
    for _ in range(21):
        torch.cuda.synchronize()
        start = time.perf_counter()
        kernel(BURST)
        found.append((time.perf_counter() - start) / BURST)
    torch.cuda.synchronize()
    return statistics.median(found)
