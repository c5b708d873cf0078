"""A CUDA driver of our own, which notes what it is asked for: libcuda.so.1 for a script in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from minicompile.runtime.compiler import compiler

KERNELS = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern "C" {
static long long seen[64];
static int device, launched, has_context = 1;
long long *noted(void) { return seen; }
int how_many(void) { return launched; }
int cuCtxGetCurrent(void **context) { *context = has_context ? (void *)(100LL + device) : nullptr; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int number) { *context = (void *)(100LL + number); return 0; }
int cuDevicePrimaryCtxRelease_v2(int number) { return 0; }
int cuCtxSetCurrent(void *context) { device = (int)((long long)context - 100); has_context = 1; return 0; }
void drop_context(void) { has_context = 0; }
int cuGetErrorName(int code, const char **text) { *text = "CUDA_ERROR_INVALID_VALUE"; return 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
  long long head[] = {(long long)f, gx, gy, gz, bx, by, bz, shared, (long long)stream};
  memcpy(seen, head, sizeof head);
  if (!has_context) return 201;
  ++launched;
  for (int i = 0; i < 6; ++i) seen[16 + i] = *(long long *)params[i];
  return gx == 99 ? 1 : 0;
}
void set_device(int n) { device = n; }
}
"""

GRAPHS = r"""
extern "C" {
struct Params { void *f; unsigned gx, gy, gz, bx, by, bz, shared; void **params, **extra; };
struct Node { long long shape[8], values[6]; };
struct Graph { Node nodes[8]; long long n; Graph *made_of; };
enum { LAUNCHES, SETS, GRAPHS, EXECUTABLES, STREAM };
static int counts[8], refused, captured, priority, nap;
static Graph last;
int *counted(void) { return counts; }
Graph *last_launched(void) { return &last; }
static int *const settings[] = {&refused, &captured, &priority, &nap};
void set(int what, int value) { *settings[what] = value; }
static void note(Node *node, const Params *p) {
  long long shape[] = {(long long)p->f, p->gx, p->gy, p->gz, p->bx, p->by, p->bz, p->shared};
  memcpy(node->shape, shape, sizeof shape);
  for (int i = 0; i < 6; ++i) node->values[i] = *(long long *)p->params[i];
}
int cuStreamIsCapturing(void *, int *status) { *status = captured; return captured == 9; }
int cuStreamGetPriority(void *, int *out) { *out = priority; return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { static int now; int old = now; now = *mode; *mode = old; return 0; }
int cuGraphCreate(void **graph, unsigned) { *graph = calloc(1, sizeof(Graph)); ++counts[GRAPHS]; return 0; }
int cuGraphAddKernelNode(void **node, void *graph, void *const *after, size_t n_after, const Params *params) {
  Graph *g = (Graph *)graph;
  if (n_after != (g->n > 0) || (n_after && after[0] != &g->nodes[g->n - 1]) || refused == 1) return 1;
  note(&g->nodes[g->n], params);
  *node = &g->nodes[g->n++];
  return 0;
}
int cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long) {
  if (refused == 2) return 1;
  Graph *copy = (Graph *)malloc(sizeof(Graph));
  *copy = *(Graph *)graph;
  copy->made_of = (Graph *)graph;
  *made = copy;
  ++counts[EXECUTABLES];
  return 0;
}
int cuGraphExecKernelNodeSetParams(void *made, void *node, const Params *params) {
  Graph *g = (Graph *)made;
  if (refused == 3) return 1;
  note(&g->nodes[(Node *)node - g->made_of->nodes], params);
  ++counts[SETS];
  return 0;
}
int cuGraphLaunch(void *made, void *stream) {
  if (refused == 4) return 1;
  last = *(Graph *)made;
  ++counts[LAUNCHES];
  counts[STREAM] = (int)(long long)stream;
  usleep(nap);
  return 0;
}
int cuGraphDestroy(void *graph) { free(graph); --counts[GRAPHS]; return 0; }
int cuGraphExecDestroy(void *made) { free(made); --counts[EXECUTABLES]; return 0; }
}
"""


def run_beside(driver: str, script: str, folder: Path) -> None:
    """Run the script, for which `driver` is CUDA's driver."""
    found = compiler()
    assert found is not None
    source = folder / "driver.cpp"
    source.write_text(driver)
    subprocess.run([str(found.path), "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(source)], check=True)
    folders = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
        env={**os.environ, "LD_LIBRARY_PATH": folders}, cwd=Path(__file__).parent.parent.parent,
    )
    assert done.returncode == 0, done.stderr[-2000:]
