/* minicompile.runtime._launch_cuda: launch a loaded CUDA kernel on tensors, at the least possible cost.
 *
 * In:   CudaKernel(function, grid, threads, shared, n_tensors, ints, hidden, device, aligned, name, elsewhere, stream),
 *       where `function` is a CUfunction whose parameters are n_tensors addresses, the 64-bit integers `ints`, and
 *       `hidden` addresses that are null; and then, on each call, n_tensors objects that have data_ptr().
 * Out:  None. The kernel has been put on the stream `stream(device)`.
 *       Run(steps, n_tensors, otherwise) is several kernels of one device as one call (run.h), and mostly as one launch
 *       (cuda_chain.h).
 *
 * A kernel that was compiled for addresses divisible by 16 (`aligned`) hands calls with others to `elsewhere`, and so
 * does every kernel when another device is current: both are rare, and Python can sort them out.
 *
 * Needs no CUDA to build: see cuda_driver.h.
 */
#include "cuda_chain.h"
#include "structmember.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    void *function, *context; /* of the device */
    unsigned grid, threads, shared;
    Py_ssize_t n_tensors, n_ints, hidden;
    int device, aligned;
    int64_t *ints;
    PyObject *device_number; /* `device`, as Python's int */
    PyObject *name, *elsewhere, *stream;
} CudaKernel;

/* The addresses of the tensors, and in *bits what is set in any of them. */
static int
read_addresses(PyObject *const *tensors, Py_ssize_t count, void **addresses, uintptr_t *bits)
{
    *bits = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (address_of(tensors[i], &addresses[i]) < 0)
            return -1;
        *bits |= (uintptr_t)addresses[i];
    }
    return 0;
}

static int
current_stream(CudaKernel *self, void **stream)
{
    PyObject *number = PyObject_CallOneArg(self->stream, self->device_number);
    if (number == NULL)
        return -1;
    *stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return *stream == NULL && PyErr_Occurred() ? -1 : 0;
}

static NodeParams
node_of(PyObject *kernel, void **buffers, void **slots)
{
    static void *const null = NULL;
    CudaKernel *self = (CudaKernel *)kernel;
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < self->n_tensors; i++)
        slots[count++] = &buffers[i];
    for (Py_ssize_t i = 0; i < self->n_ints; i++)
        slots[count++] = &self->ints[i];
    for (Py_ssize_t i = 0; i < self->hidden; i++)
        slots[count++] = (void *)&null;
    return (NodeParams){self->function, self->grid, 1, 1, self->threads, 1, 1, self->shared, slots, NULL};
}

/* 0, or the error's number. */
static int
put_on_stream(CudaKernel *self, void **addresses, void *stream)
{
    void *slots[AT_MOST];
    NodeParams node = node_of((PyObject *)self, addresses, slots);
    return driver.launch_kernel(node.function, node.gx, node.gy, node.gz, node.bx, node.by, node.bz, node.shared, stream,
                                node.params, node.extra);
}

static PyObject *
result_of(CudaKernel *self, int code)
{
    if (code == 0)
        Py_RETURN_NONE;
    const char *text = NULL;
    driver.get_error_name(code, &text);
    return PyErr_Format(PyExc_RuntimeError, "CUDA error %d (%s) when kernel %U was launched", code, text ? text : "unknown",
                        self->name);
}

/* Whether the kernel's device is current. A thread that has done nothing with CUDA yet is on device 0, but has no context;
   it gets what the first call of the runtime would give it. */
static int
is_current(const CudaKernel *self)
{
    void *context;
    if (driver.get_context(&context) != 0)
        return 0;
    if (context == NULL && self->device == 0)
        return driver.set_context(self->context) == 0;
    return context == self->context;
}

static PyObject *
cuda_kernel_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    CudaKernel *self = (CudaKernel *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (given != self->n_tensors || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "kernel %U takes %zd tensors, by position; %zd arguments given", self->name,
                            self->n_tensors, given + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    void *addresses[AT_MOST], *stream;
    uintptr_t bits;
    if (read_addresses(args, given, addresses, &bits) < 0)
        return NULL;
    if ((self->aligned && (bits & 15) != 0) || !is_current(self))
        return PyObject_Vectorcall(self->elsewhere, args, (size_t)given, NULL);
    if (current_stream(self, &stream) < 0)
        return NULL;
    return result_of(self, put_on_stream(self, addresses, stream));
}

static int
read_ints(CudaKernel *self, PyObject *ints)
{
    self->n_ints = PyTuple_GET_SIZE(ints);
    self->ints = PyMem_Calloc((size_t)self->n_ints + 1, sizeof(int64_t));
    if (self->ints == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->n_ints; i++) {
        self->ints[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(ints, i));
        if (self->ints[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* The device's context, which torch holds. */
static int
find_context(CudaKernel *self)
{
    int code = driver.retain_context(&self->context, self->device);
    if (code == 0)
        code = driver.release_context(self->device);
    if (code == 0)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "CUDA error %d when the context of device %d was asked for", code, self->device);
    return -1;
}

static PyObject *
cuda_kernel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "grid", "threads", "shared", "n_tensors", "ints", "hidden",
                            "device", "aligned", "name", "elsewhere", "stream", NULL};
    unsigned long long function;
    unsigned grid, threads, shared;
    Py_ssize_t n_tensors, hidden;
    int device, aligned;
    PyObject *ints, *name, *elsewhere, *stream;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KIIInO!nipUOO", names, &function, &grid, &threads, &shared, &n_tensors,
                                     &PyTuple_Type, &ints, &hidden, &device, &aligned, &name, &elsewhere, &stream))
        return NULL;
    if (function == 0 || grid == 0 || n_tensors < 0 || hidden < 0 ||
        n_tensors + hidden + PyTuple_GET_SIZE(ints) > AT_MOST)
        return PyErr_Format(PyExc_ValueError, "a kernel needs a function, a grid, and at most %d parameters", AT_MOST);
    if (find_driver() < 0)
        return NULL;
    CudaKernel *self = (CudaKernel *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = cuda_kernel_vectorcall;
    self->function = (void *)(uintptr_t)function;
    self->grid = grid, self->threads = threads, self->shared = shared;
    self->n_tensors = n_tensors, self->hidden = hidden;
    self->device = device, self->aligned = aligned;
    self->name = Py_NewRef(name), self->elsewhere = Py_NewRef(elsewhere), self->stream = Py_NewRef(stream);
    self->device_number = PyLong_FromLong(device);
    if (self->device_number == NULL || read_ints(self, ints) < 0 || find_context(self) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int
cuda_kernel_traverse(CudaKernel *self, visitproc visit, void *arg)
{
    Py_VISIT(self->elsewhere);
    Py_VISIT(self->stream);
    return 0;
}

static int
cuda_kernel_clear(CudaKernel *self)
{
    Py_CLEAR(self->elsewhere);
    Py_CLEAR(self->stream);
    return 0;
}

static void
cuda_kernel_dealloc(CudaKernel *self)
{
    PyObject_GC_UnTrack(self);
    cuda_kernel_clear(self);
    Py_XDECREF(self->name);
    Py_XDECREF(self->device_number);
    PyMem_Free(self->ints);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
cuda_kernel_repr(CudaKernel *self)
{
    return PyUnicode_FromFormat("<CUDA kernel %U: %zd tensors, %u programs of %u threads>", self->name, self->n_tensors,
                                self->grid, self->threads);
}

static PyTypeObject cuda_kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.runtime._launch_cuda.CudaKernel",
    .tp_doc = PyDoc_STR("A loaded CUDA kernel, callable with tensors; see launch_cuda.c."),
    .tp_basicsize = sizeof(CudaKernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = cuda_kernel_new,
    .tp_dealloc = (destructor)cuda_kernel_dealloc,
    .tp_traverse = (traverseproc)cuda_kernel_traverse,
    .tp_clear = (inquiry)cuda_kernel_clear,
    .tp_repr = (reprfunc)cuda_kernel_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(CudaKernel, vectorcall),
};

/* ---- several as one: see run.h ---- */

static PyTypeObject *const step_type = &cuda_kernel_type;

static Py_ssize_t
buffers_of(PyObject *kernel)
{
    return ((CudaKernel *)kernel)->n_tensors;
}

/* Whether every kernel may be launched on these addresses, on the device that is current. */
static int
may_all_run(const Run *self, char **addresses, void **buffers)
{
    for (Py_ssize_t i = 0; i < self->n_steps; i++) {
        const Step *step = &self->steps[i];
        const CudaKernel *kernel = (CudaKernel *)step->kernel;
        uintptr_t bits = 0;
        look_up(step, addresses, buffers);
        for (Py_ssize_t k = 0; k < step->count; k++)
            bits |= (uintptr_t)buffers[k];
        if ((kernel->aligned && (bits & 15) != 0) || kernel->device != ((CudaKernel *)self->steps[0].kernel)->device)
            return 0;
    }
    return is_current((CudaKernel *)self->steps[0].kernel);
}

/* 0, or the number of an error and the kernel that had it. */
static int
put_one_by_one(const Run *self, char **addresses, void **buffers, void *stream, CudaKernel **kernel)
{
    int code = 0;
    for (Py_ssize_t i = 0; i < self->n_steps && code == 0; i++) {
        *kernel = (CudaKernel *)self->steps[i].kernel;
        look_up(&self->steps[i], addresses, buffers);
        code = put_on_stream(*kernel, buffers, stream);
    }
    return code;
}

static PyObject *
run_steps(Run *self, PyObject *const *tensors, char **addresses, void **buffers)
{
    CudaKernel *kernel = (CudaKernel *)self->steps[0].kernel;
    void *stream;
    int code = 0;
    if (!may_all_run(self, addresses, buffers))
        return PyObject_Vectorcall(self->otherwise, tensors, (size_t)self->n_tensors, NULL);
    if (current_stream(kernel, &stream) < 0)
        return NULL;
    Chain *chain = take_chain(self, stream);
    Py_BEGIN_ALLOW_THREADS
    if (chain == NULL || !launch_chain(self, chain, addresses, buffers))
        code = put_one_by_one(self, addresses, buffers, stream, &kernel);
    Py_END_ALLOW_THREADS
    if (chain != NULL)
        chain->is_busy = 0;
    return result_of(kernel, code);
}

/* same_addresses(tensors, addresses, where): whether tensors[i] lies at addresses[i], for each i in `where`; all lists. */
static PyObject *
same_addresses(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    if (given != 3 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]) || !PyList_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "same_addresses() takes lists of tensors, addresses and indices");
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[2]); k++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyList_GET_ITEM(args[2], k));
        void *address;
        if (i < 0 || i >= PyList_GET_SIZE(args[0]) || i >= PyList_GET_SIZE(args[1]))
            return PyErr_Format(PyExc_IndexError, "there is no tensor or address %zd", i);
        if (address_of(PyList_GET_ITEM(args[0], i), &address) < 0)
            return NULL;
        if (address != PyLong_AsVoidPtr(PyList_GET_ITEM(args[1], i)))
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    }
    Py_RETURN_TRUE;
}

static PyMethodDef launch_methods[] = {
    USE_LAYOUT,
    {"same_addresses", (PyCFunction)(void (*)(void))same_addresses, METH_FASTCALL, "Whether tensors lie there."},
    {NULL},
};

static struct PyModuleDef launch_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_launch_cuda",
    .m_doc = PyDoc_STR("Launching CUDA kernels; see launch_cuda.c."),
    .m_size = -1,
    .m_methods = launch_methods,
};

PyMODINIT_FUNC
PyInit__launch_cuda(void)
{
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    PyObject *module = PyModule_Create(&launch_module);
    if (module == NULL || data_ptr_name == NULL || PyModule_AddType(module, &cuda_kernel_type) < 0 ||
        PyModule_AddType(module, &run_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
