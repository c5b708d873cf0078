/* minicompile.runtime._launch: call a compiled kernel with tensors and sizes, at the least possible cost.
 *
 * In:   Kernel(address, n_tensors, n_ints, name, error, keepalive), where `address` is a C function
 *       int kernel(void **buffers, const int64_t *sizes), and then, on each call, n_tensors objects that have data_ptr()
 *       followed by n_ints integers; a float among these is passed as the bits of its double.
 * Out:  None; where the kernel returned a code other than 0, the exception error(code, name).
 *       Run(steps, n_tensors, otherwise) is several kernels without integers as one call (run.h); after an error the
 *       others are not run.
 *
 * A vectorcall type is used because ctypes converts each argument through a Python-level object: three tensors cost
 * twice as much there, which is most of what a small fused kernel costs.  The interpreter's lock is released around
 * the kernel, as eager's operators do, so that other threads run meanwhile.  Addresses are read as torch_tensor.h says.
 */
#include "run.h"
#include "structmember.h"

typedef int (*kernel_function)(void **buffers, const int64_t *sizes);

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    kernel_function function;
    Py_ssize_t n_tensors;
    Py_ssize_t n_ints;
    PyObject *name;
    PyObject *error;
    PyObject *keepalive; /* whatever owns the loaded library */
} Kernel;

enum { ON_STACK = 32 }; /* kernels with more arguments than this put them on the heap */

static int
read_pointers(PyObject *const *tensors, Py_ssize_t count, void **buffers)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (address_of(tensors[i], &buffers[i]) < 0)
            return -1;
    }
    return 0;
}

static int
read_sizes(PyObject *const *numbers, Py_ssize_t count, int64_t *sizes)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyFloat_CheckExact(numbers[i])) {
            double number = PyFloat_AS_DOUBLE(numbers[i]);
            memcpy(&sizes[i], &number, sizeof number);
            continue;
        }
        sizes[i] = PyLong_AsLongLong(numbers[i]);
        if (sizes[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *
raise_kernel_error(Kernel *self, int code)
{
    PyObject *exception = PyObject_CallFunction(self->error, "iO", code, self->name);
    if (exception != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

static PyObject *
launch(Kernel *self, PyObject *const *args, void **buffers, int64_t *sizes)
{
    if (read_pointers(args, self->n_tensors, buffers) < 0 ||
        read_sizes(args + self->n_tensors, self->n_ints, sizes) < 0)
        return NULL;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = self->function(buffers, sizes);
    Py_END_ALLOW_THREADS
    if (code != 0)
        return raise_kernel_error(self, code);
    Py_RETURN_NONE;
}

static PyObject *
launch_from_heap(Kernel *self, PyObject *const *args)
{
    size_t slots = (size_t)(self->n_tensors + self->n_ints);
    void **buffers = PyMem_Calloc(slots, sizeof(int64_t) > sizeof(void *) ? sizeof(int64_t) : sizeof(void *));
    if (buffers == NULL)
        return PyErr_NoMemory();
    PyObject *result = launch(self, args, buffers, (int64_t *)(buffers + self->n_tensors));
    PyMem_Free(buffers);
    return result;
}

static PyObject *
kernel_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Kernel *self = (Kernel *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf), wanted = self->n_tensors + self->n_ints;
    if (given != wanted || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "kernel %U takes %zd tensors and %zd integers, by position; %zd arguments given",
                            self->name, self->n_tensors, self->n_ints,
                            given + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    if (wanted > ON_STACK)
        return launch_from_heap(self, args);
    void *buffers[ON_STACK];
    int64_t sizes[ON_STACK];
    return launch(self, args, buffers, sizes);
}

static PyObject *
kernel_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"address", "n_tensors", "n_ints", "name", "error", "keepalive", NULL};
    unsigned long long address;
    Py_ssize_t n_tensors, n_ints;
    PyObject *name, *error, *keepalive;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KnnUOO", names, &address, &n_tensors, &n_ints, &name, &error,
                                     &keepalive))
        return NULL;
    if (address == 0 || n_tensors < 0 || n_ints < 0 || n_tensors > INT32_MAX || n_ints > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a kernel needs an address that is not 0 and counts that are not negative");
        return NULL;
    }
    Kernel *self = (Kernel *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = kernel_vectorcall;
    self->function = (kernel_function)(uintptr_t)address;
    self->n_tensors = n_tensors;
    self->n_ints = n_ints;
    self->name = Py_NewRef(name);
    self->error = Py_NewRef(error);
    self->keepalive = Py_NewRef(keepalive);
    return (PyObject *)self;
}

static int
kernel_traverse(Kernel *self, visitproc visit, void *arg)
{
    Py_VISIT(self->error);
    Py_VISIT(self->keepalive);
    return 0;
}

/* Nothing is cleared: the library must stay loaded for as long as the kernel can be called, and whatever a cycle
   goes through (a Python object's __dict__, a class) can be cleared there. */
static void
kernel_dealloc(Kernel *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->name);
    Py_XDECREF(self->error);
    Py_XDECREF(self->keepalive);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
kernel_repr(Kernel *self)
{
    return PyUnicode_FromFormat("<kernel %U: %zd tensors, %zd integers>", self->name, self->n_tensors, self->n_ints);
}

static PyMemberDef kernel_members[] = {
    {"n_tensors", T_PYSSIZET, offsetof(Kernel, n_tensors), READONLY, "how many tensors a call takes"},
    {"n_ints", T_PYSSIZET, offsetof(Kernel, n_ints), READONLY, "how many integers follow them"},
    {"name", T_OBJECT, offsetof(Kernel, name), READONLY, "the kernel's symbol"},
    {NULL},
};

static PyTypeObject kernel_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.runtime._launch.Kernel",
    .tp_doc = PyDoc_STR("Kernel(address, n_tensors, n_ints, name, error, keepalive): a native kernel, callable."),
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = kernel_new,
    .tp_dealloc = (destructor)kernel_dealloc,
    .tp_traverse = (traverseproc)kernel_traverse,
    .tp_repr = (reprfunc)kernel_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Kernel, vectorcall),
    .tp_members = kernel_members,
};

/* ---- several as one: see run.h ---- */

static PyTypeObject *const step_type = &kernel_type;

static Py_ssize_t
buffers_of(PyObject *kernel)
{
    return ((Kernel *)kernel)->n_ints == 0 ? ((Kernel *)kernel)->n_tensors : -1;
}

static PyObject *
run_steps(Run *self, PyObject *const *Py_UNUSED(tensors), char **addresses, void **buffers)
{
    static const int64_t no_sizes[1];
    Kernel *kernel = NULL;
    int code = 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < self->n_steps && code == 0; i++) {
        kernel = (Kernel *)self->steps[i].kernel;
        look_up(&self->steps[i], addresses, buffers);
        code = kernel->function(buffers, no_sizes);
    }
    Py_END_ALLOW_THREADS
    if (code != 0)
        return raise_kernel_error(kernel, code);
    Py_RETURN_NONE;
}

static void
drop_own(void *Py_UNUSED(own))
{
}

static PyMethodDef launch_methods[] = {USE_LAYOUT, {NULL}};

static struct PyModuleDef launch_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_launch",
    .m_doc = PyDoc_STR("Launching native kernels; see launch.c."),
    .m_size = -1,
    .m_methods = launch_methods,
};

PyMODINIT_FUNC
PyInit__launch(void)
{
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    PyObject *module = PyModule_Create(&launch_module);
    if (module == NULL || data_ptr_name == NULL || PyModule_AddType(module, &kernel_type) < 0 ||
        PyModule_AddType(module, &run_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
