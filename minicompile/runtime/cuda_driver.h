/* The functions of CUDA's driver that launch_cuda.c needs, looked up when the first kernel is made: nothing of CUDA is
 * needed to build. Those of graphs may be missing (`has_graphs` is 0 then); without the others there is an error. */
#ifndef MINICOMPILE_CUDA_DRIVER_H
#define MINICOMPILE_CUDA_DRIVER_H

#include <Python.h>
#include <dlfcn.h>

typedef struct { /* CUDA_KERNEL_NODE_PARAMS, first version */
    void *function;
    unsigned gx, gy, gz, bx, by, bz, shared;
    void **params, **extra;
} NodeParams;

static struct {
    int (*launch_kernel)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned shared, void *stream, void **params, void **extra);
    int (*retain_context)(void **context, int device);
    int (*release_context)(int device);
    int (*get_context)(void **context);
    int (*set_context)(void *context);
    int (*get_error_name)(int code, const char **text);
    int (*is_capturing)(void *stream, int *status);
    int (*get_priority)(void *stream, int *priority);
    int (*exchange_capture_mode)(int *mode);
    int (*graph_create)(void **graph, unsigned flags);
    int (*graph_add_kernel)(void **node, void *graph, void *const *after, size_t n_after, const NodeParams *params);
    int (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*graph_set_kernel)(void *executable, void *node, const NodeParams *params);
    int (*graph_launch)(void *executable, void *stream);
    int (*graph_destroy)(void *graph);
    int (*executable_destroy)(void *executable);
    int is_found, has_graphs;
} driver;

typedef struct {
    const char *name;
    void *place; /* of the pointer in `driver` */
    int is_of_graphs;
} DriverFunction;

static const DriverFunction driver_functions[] = {
    {"cuLaunchKernel", &driver.launch_kernel, 0},
    {"cuDevicePrimaryCtxRetain", &driver.retain_context, 0},
    {"cuDevicePrimaryCtxRelease_v2", &driver.release_context, 0},
    {"cuCtxGetCurrent", &driver.get_context, 0},
    {"cuCtxSetCurrent", &driver.set_context, 0},
    {"cuGetErrorName", &driver.get_error_name, 0},
    {"cuStreamIsCapturing", &driver.is_capturing, 1},
    {"cuStreamGetPriority", &driver.get_priority, 1},
    {"cuThreadExchangeStreamCaptureMode", &driver.exchange_capture_mode, 1},
    {"cuGraphCreate", &driver.graph_create, 1},
    {"cuGraphAddKernelNode", &driver.graph_add_kernel, 1},
    {"cuGraphInstantiateWithFlags", &driver.graph_instantiate, 1},
    {"cuGraphExecKernelNodeSetParams", &driver.graph_set_kernel, 1},
    {"cuGraphLaunch", &driver.graph_launch, 1},
    {"cuGraphDestroy", &driver.graph_destroy, 1},
    {"cuGraphExecDestroy", &driver.executable_destroy, 1},
};

static int
find_driver(void)
{
    if (driver.is_found)
        return 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        PyErr_Format(PyExc_OSError, "CUDA's driver could not be loaded: %s", dlerror());
        return -1;
    }
    driver.has_graphs = 1;
    for (size_t i = 0; i < sizeof driver_functions / sizeof *driver_functions; i++) {
        const DriverFunction *function = &driver_functions[i];
        void *address = dlsym(library, function->name);
        *(void **)function->place = address;
        if (address == NULL && function->is_of_graphs)
            driver.has_graphs = 0;
        else if (address == NULL) {
            PyErr_Format(PyExc_OSError, "CUDA's driver lacks %s", function->name);
            return -1;
        }
    }
    driver.is_found = 1;
    return 0;
}

#endif
