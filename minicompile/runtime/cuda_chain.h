/* A run of kernels (run.h) as one CUDA graph, for launch_cuda.c. The driver takes 3.4 to 4.8 µs to launch a kernel, 1.7 to 2.3
 * to launch a graph of any length, and 0.2 to 0.9 more for each kernel whose addresses have changed since the last launch
 * (H200). (On the GPU a graph begins 2 µs later after another kernel than a kernel would, so a single kernel between others is
 * launched as such.)
 *
 * In:   take_chain: a run's chains, and a stream; launch_chain: what it gave, and the addresses of a call.
 * Out:  whether all kernels have been put on the stream. If not, none has: they are to be launched one by one.
 *
 * They are launched one by one
 *   - at a run's first call on a stream, which may be the only one: to make a graph takes 100 µs;
 *   - on streams beyond the first four: each has a graph of its own, since launches of one graph wait for each other;
 *   - on streams with a priority, which the kernels of a graph do not take over;
 *   - while the stream is being captured: then the kernels become a part of somebody's graph;
 *   - while another thread launches the chain: a graph is changed by one thread at a time;
 *   - for good, once the driver has refused anything: errors are those of single kernels.
 */
#ifndef MINICOMPILE_CUDA_CHAIN_H
#define MINICOMPILE_CUDA_CHAIN_H

#include "cuda_driver.h"
#include "run.h"

enum {
    AT_MOST = 256, /* parameters of a kernel; CUDA allows 4 KiB, 512 addresses */
    STREAMS = 4,
    RELAXED = 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */
};

typedef struct {
    void *stream;
    int is_busy;    /* like `stream`, read and written under the interpreter's lock; the rest by whom it is busy for */
    int is_refused; /* by the driver */
    void *graph, *executable;
    void **nodes;
    void **addresses; /* of each kernel at the last launch, kernel after kernel */
} Chain;

typedef struct {
    int count;
    Chain chains[STREAMS];
} Chains;

/* What the file that includes this one defines: how a kernel is launched on buffers. `slots` has room for pointers to its
   parameters. */
static NodeParams node_of(PyObject *kernel, void **buffers, void **slots);

/* The chain to launch, busy until the caller sets it free; NULL: launch one by one. */
static Chain *
take_chain(Run *self, void *stream)
{
    if (self->own == NULL && driver.has_graphs)
        self->own = PyMem_RawCalloc(1, sizeof(Chains));
    Chains *all = self->own;
    if (all == NULL)
        return NULL;
    for (int i = 0; i < all->count; i++) {
        Chain *chain = &all->chains[i];
        if (chain->stream != stream)
            continue;
        if (chain->is_busy || chain->is_refused)
            return NULL;
        chain->is_busy = 1;
        return chain;
    }
    if (all->count < STREAMS)
        all->chains[all->count++].stream = stream;
    return NULL;
}

/* From here on without the interpreter's lock. Each kernel waits for the one before. */
static int
make_graph(const Run *self, Chain *chain, char **addresses, void **buffers)
{
    void *slots[AT_MOST], **last = chain->addresses;
    if (driver.graph_create(&chain->graph, 0) != 0)
        return 0;
    for (Py_ssize_t i = 0; i < self->n_steps; last += self->steps[i].count, i++) {
        look_up(&self->steps[i], addresses, buffers);
        NodeParams node = node_of(self->steps[i].kernel, buffers, slots);
        if (driver.graph_add_kernel(&chain->nodes[i], chain->graph, &chain->nodes[i - (i > 0)], i > 0, &node) != 0)
            return 0;
        memcpy(last, buffers, (size_t)self->steps[i].count * sizeof(void *));
    }
    return driver.graph_instantiate(&chain->executable, chain->graph, 0) == 0;
}

static int
make_chain(const Run *self, Chain *chain, char **addresses, void **buffers)
{
    int priority = 0, mode = RELAXED; /* what another thread captures meanwhile is left in peace */
    size_t count = 0;
    for (Py_ssize_t i = 0; i < self->n_steps; i++)
        count += (size_t)self->steps[i].count;
    chain->nodes = PyMem_RawCalloc((size_t)self->n_steps, sizeof(void *));
    chain->addresses = PyMem_RawCalloc(count + 1, sizeof(void *));
    if (chain->nodes == NULL || chain->addresses == NULL)
        return 0;
    if (driver.get_priority(chain->stream, &priority) != 0 || priority != 0 || driver.exchange_capture_mode(&mode) != 0)
        return 0;
    int is_made = make_graph(self, chain, addresses, buffers);
    return driver.exchange_capture_mode(&mode) == 0 && is_made;
}

static int
set_addresses(const Run *self, Chain *chain, char **addresses, void **buffers)
{
    void *slots[AT_MOST], **last = chain->addresses;
    for (Py_ssize_t i = 0; i < self->n_steps; last += self->steps[i].count, i++) {
        size_t size = (size_t)self->steps[i].count * sizeof(void *);
        look_up(&self->steps[i], addresses, buffers);
        if (memcmp(last, buffers, size) == 0)
            continue;
        memcpy(last, buffers, size);
        NodeParams node = node_of(self->steps[i].kernel, buffers, slots);
        if (driver.graph_set_kernel(chain->executable, chain->nodes[i], &node) != 0)
            return 0;
    }
    return 1;
}

static int
launch_chain(const Run *self, Chain *chain, char **addresses, void **buffers)
{
    int status = 0;
    if (driver.is_capturing(chain->stream, &status) != 0 || status != 0)
        return 0;
    int is_ready = chain->executable != NULL ? set_addresses(self, chain, addresses, buffers)
                                             : make_chain(self, chain, addresses, buffers);
    int is_launched = is_ready && driver.graph_launch(chain->executable, chain->stream) == 0;
    chain->is_refused = !is_launched;
    return is_launched;
}

/* What is running goes on to its end. */
static void
drop_own(void *own)
{
    Chains *all = own;
    for (int i = 0; all != NULL && i < all->count; i++) {
        Chain *chain = &all->chains[i];
        if (chain->executable != NULL)
            driver.executable_destroy(chain->executable);
        if (chain->graph != NULL)
            driver.graph_destroy(chain->graph);
        PyMem_RawFree(chain->nodes);
        PyMem_RawFree(chain->addresses);
    }
    PyMem_RawFree(all);
}

#endif
