/* minicompile.guards._tensor_check: whether tensors are as they were when an entry was compiled for them.
 *
 * In:   TensorCheck(expected), one tuple (class, dispatch keys, dtype, device type, device index, requires_grad, sizes,
 *       strides) for each tensor of a call, numbers as `describe` gives them, None for a size or stride that is free;
 *       and, on each call, as many objects.
 * Out:  whether each is of exactly that class and has all of it, no two are one object, and this thread includes and
 *       excludes the dispatch keys, and is inside as many torch modes, as when the check was made.
 *
 * It compares what torch._C._dynamo.guards.TensorGuards does, at a fifth of the cost, and stands nested tensors: their
 * dispatch keys are compared before anything is asked that they could not answer.  How tensors are read: torch_tensor.h.
 */
#include "../runtime/torch_tensor.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum {
    FREE = -1,       /* a size or stride that may be anything: neither is ever negative in a tensor */
    FEW_TENSORS = 12 /* so many are compared pair by pair */
};

typedef struct {
    PyTypeObject *type;
    uint64_t keys;
    int32_t dtype, device_type, device_index;
    int requires_grad;
    int64_t rank;
    int has_strides; /* whether any is compared: tensors without strides must not be asked */
    int64_t *sizes;  /* and, behind them, the strides */
} Expected;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Py_ssize_t count;
    uint64_t local_keys[2];
    int64_t function_modes, dispatch_modes;
    Expected *expected;
} TensorCheck;

/* ---- reading ---- */

static _Thread_local const uint64_t *own_local_keys;

static const uint64_t *
local_keys(void)
{
    if (own_local_keys == NULL)
        own_local_keys = dlsym(torch_layout.library, torch_layout.local_keys);
    return own_local_keys;
}

static int
same_numbers(const int64_t *expected, const int64_t *found, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (expected[i] != found[i] && expected[i] != FREE)
            return 0;
    return 1;
}

static int
is_as_expected(const Expected *expected, PyObject *object)
{
    if (Py_TYPE(object) != expected->type)
        return 0;
    void *handle = tensor_handle(object), *impl = implementation(object);
    if (impl == NULL || keys_of(impl) != expected->keys || torch_layout.requires_grad(impl) != expected->requires_grad)
        return 0;
    int32_t number;
    int64_t rank, *numbers;
    return torch_layout.dtype(handle, &number) == 0 && number == expected->dtype &&
           torch_layout.device_index(handle, &number) == 0 && number == expected->device_index &&
           torch_layout.device_type(handle, &number) == 0 && number == expected->device_type &&
           torch_layout.dim(handle, &rank) == 0 && rank == expected->rank &&
           torch_layout.sizes(handle, &numbers) == 0 && same_numbers(expected->sizes, numbers, rank) &&
           (!expected->has_strides || (torch_layout.strides(handle, &numbers) == 0 &&
                                       same_numbers(expected->sizes + rank, numbers, rank)));
}

static int
few_are_distinct(PyObject *const *objects, Py_ssize_t count)
{
    for (Py_ssize_t i = 1; i < count; i++)
        for (Py_ssize_t j = 0; j < i; j++)
            if (objects[i] == objects[j])
                return 0;
    return 1;
}

/* 1 or 0; -1 with an exception.  A set with open addressing, at most a quarter full. */
static int
are_distinct(PyObject *const *objects, Py_ssize_t count)
{
    if (count <= FEW_TENSORS)
        return few_are_distinct(objects, count);
    size_t slots = 16;
    while (slots < (size_t)count * 4)
        slots *= 2;
    PyObject **seen = PyMem_Calloc(slots, sizeof(PyObject *));
    if (seen == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int distinct = 1;
    for (Py_ssize_t i = 0; i < count && distinct; i++) {
        size_t slot = ((uintptr_t)objects[i] >> 4) * 0x9E3779B97F4A7C15u >> 16 & (slots - 1);
        while (seen[slot] != NULL && seen[slot] != objects[i])
            slot = (slot + 1) & (slots - 1);
        distinct = seen[slot] == NULL;
        seen[slot] = objects[i];
    }
    PyMem_Free(seen);
    return distinct;
}

static PyObject *
check_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    TensorCheck *self = (TensorCheck *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (given != self->count || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "this check takes %zd tensors, by position; %zd given", self->count, given);
    const uint64_t *keys = local_keys();
    if (keys == NULL || memcmp(keys, self->local_keys, sizeof self->local_keys) != 0 ||
        torch_layout.function_modes() != self->function_modes || torch_layout.dispatch_modes() != self->dispatch_modes)
        Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < given; i++)
        if (!is_as_expected(&self->expected[i], args[i]))
            Py_RETURN_FALSE;
    int distinct = are_distinct(args, given);
    return distinct < 0 ? NULL : PyBool_FromLong(distinct);
}

/* ---- making ---- */

static int
read_numbers(PyObject *numbers, int64_t *result)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        PyObject *number = PyTuple_GET_ITEM(numbers, i);
        result[i] = number == Py_None ? FREE : PyLong_AsLongLong(number);
        if (result[i] < 0 && number != Py_None) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "sizes and strides are not negative");
            return -1;
        }
    }
    return 0;
}

static int
read_expected(PyObject *facts, Expected *expected)
{
    PyObject *type, *sizes, *strides;
    unsigned long long keys;
    if (!PyTuple_Check(facts)) {
        PyErr_SetString(PyExc_TypeError, "what is expected of a tensor is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(facts, "O!KiiipO!O!", &PyType_Type, &type, &keys, &expected->dtype, &expected->device_type,
                          &expected->device_index, &expected->requires_grad, &PyTuple_Type, &sizes, &PyTuple_Type, &strides))
        return -1;
    expected->rank = PyTuple_GET_SIZE(sizes);
    if (!PyType_IsSubtype((PyTypeObject *)type, torch_layout.tensor) || PyTuple_GET_SIZE(strides) != expected->rank) {
        PyErr_SetString(PyExc_ValueError, "a tensor has a tensor's class, and as many strides as sizes");
        return -1;
    }
    expected->keys = keys;
    expected->sizes = PyMem_Calloc((size_t)expected->rank * 2 + 1, sizeof(int64_t));
    if (expected->sizes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    expected->type = (PyTypeObject *)Py_NewRef(type);
    if (read_numbers(sizes, expected->sizes) < 0 || read_numbers(strides, expected->sizes + expected->rank) < 0)
        return -1;
    for (int64_t i = expected->rank; i < expected->rank * 2; i++)
        expected->has_strides |= expected->sizes[i] != FREE;
    return 0;
}

static PyObject *
check_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"expected", NULL};
    PyObject *expected;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &PyTuple_Type, &expected))
        return NULL;
    const uint64_t *keys = torch_layout.is_known ? local_keys() : NULL;
    if (keys == NULL)
        return PyErr_Format(PyExc_RuntimeError, "it is not known how this torch's tensors are to be read");
    TensorCheck *self = (TensorCheck *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = check_vectorcall;
    memcpy(self->local_keys, keys, sizeof self->local_keys);
    self->function_modes = torch_layout.function_modes();
    self->dispatch_modes = torch_layout.dispatch_modes();
    self->expected = PyMem_Calloc((size_t)PyTuple_GET_SIZE(expected) + 1, sizeof(Expected));
    if (self->expected == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->count = PyTuple_GET_SIZE(expected);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (read_expected(PyTuple_GET_ITEM(expected, i), &self->expected[i]) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int
check_traverse(TensorCheck *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->expected[i].type);
    return 0;
}

/* Nothing is cleared by the collector: a check that can be called needs its classes.  A cycle goes through the class,
   which lets go of whatever led to the check. */
static void
check_dealloc(TensorCheck *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_XDECREF(self->expected[i].type);
        PyMem_Free(self->expected[i].sizes);
    }
    PyMem_Free(self->expected);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject check_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.guards._tensor_check.TensorCheck",
    .tp_doc = PyDoc_STR("TensorCheck(expected): whether a call's tensors are as expected; see tensor_check.c."),
    .tp_basicsize = sizeof(TensorCheck),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = check_new,
    .tp_dealloc = (destructor)check_dealloc,
    .tp_traverse = (traverseproc)check_traverse,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(TensorCheck, vectorcall),
};

/* ---- what Python sees ---- */

static PyObject *
tuple_of(const int64_t *numbers, int64_t count)
{
    PyObject *result = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t i = 0; result != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (number == NULL)
            Py_CLEAR(result);
        else
            PyTuple_SET_ITEM(result, i, number);
    }
    return result;
}

static PyObject *
describe(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    if (!torch_layout.is_known || !PyType_IsSubtype(Py_TYPE(tensor), torch_layout.tensor))
        return PyErr_Format(PyExc_TypeError, "a tensor is needed, and a torch whose tensors can be read");
    void *handle = tensor_handle(tensor), *impl = implementation(tensor);
    int32_t dtype, device_type, device_index;
    int64_t rank, *sizes, *strides;
    if (impl == NULL || torch_layout.dtype(handle, &dtype) != 0 || torch_layout.device_type(handle, &device_type) != 0 ||
        torch_layout.device_index(handle, &device_index) != 0 || torch_layout.dim(handle, &rank) != 0 ||
        torch_layout.sizes(handle, &sizes) != 0 || torch_layout.strides(handle, &strides) != 0)
        return PyErr_Format(PyExc_ValueError, "a strided tensor is needed");
    return Py_BuildValue("OKiiiNNN", Py_TYPE(tensor), (unsigned long long)keys_of(impl), dtype, device_type, device_index,
                         PyBool_FromLong(torch_layout.requires_grad(impl)), tuple_of(sizes, rank), tuple_of(strides, rank));
}

/* A plain tuple; `tensor.shape` makes a torch.Size, at three times the cost. */
static PyObject *
shape(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    int64_t rank, *sizes;
    if (!torch_layout.is_known || !PyType_IsSubtype(Py_TYPE(tensor), torch_layout.tensor) || implementation(tensor) == NULL ||
        torch_layout.dim(tensor_handle(tensor), &rank) != 0 || torch_layout.sizes(tensor_handle(tensor), &sizes) != 0)
        return PyErr_Format(PyExc_TypeError, "a tensor is needed, and a torch whose tensors can be read");
    return tuple_of(sizes, rank);
}

static PyMethodDef check_methods[] = {
    USE_LAYOUT,
    {"shape", shape, METH_O, "A tensor's sizes, as a plain tuple."},
    {"describe", describe, METH_O, "What TensorCheck would expect of a tensor like this strided one."},
    {NULL},
};

static struct PyModuleDef check_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_tensor_check",
    .m_doc = PyDoc_STR("Whether tensors are as expected; see tensor_check.c."),
    .m_size = -1,
    .m_methods = check_methods,
};

PyMODINIT_FUNC
PyInit__tensor_check(void)
{
    PyObject *module = PyModule_Create(&check_module);
    if (module == NULL || PyModule_AddType(module, &check_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
