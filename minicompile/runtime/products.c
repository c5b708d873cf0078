/* minicompile.runtime._products: matrix products of ATen, called without Python's and without the dispatcher's detours.
 *
 * In:   Product(function, reinterpret, release, scaled, views, keys, otherwise): `function` is one of torch's stable C
 *       interface, aoti_torch_cpu_mm_out and the like, which takes pointers to at::Tensors, the result's first, and beta
 *       and alpha where it is `scaled`; for each of its tensors `views` has None, or (sizes, strides, offset) of the view
 *       that is meant of the tensor given; `keys` are the dispatch keys of plain tensors, outside of inference mode and
 *       in it.  And, on each call, as many tensors.
 * Out:  None; the result has been written.  Whatever is unusual (a class or dispatch keys that are not plain, an error)
 *       goes to `otherwise`, with the same arguments: Python can sort it out, and raises what eager would.
 *
 * A product costs eager some 2 us beside its arithmetic, and a transposed weight's view 1 us.  Here it is 0.3 in all.
 */
#include "torch_tensor.h"
#include <stddef.h>

typedef int32_t (*plain_function)(void *out, void *a, void *b);
typedef int32_t (*scaled_function)(void *out, void *added, void *a, void *b, double beta, double alpha);
typedef int32_t (*reinterpret_function)(void *tensor, int64_t rank, const int64_t *sizes, const int64_t *strides,
                                        int64_t offset, void **view);
typedef int32_t (*release_function)(void *tensor);

enum { AT_MOST = 4 }; /* the result, what is added, and two factors */

typedef struct {
    int is_whole; /* the tensor itself */
    int64_t rank, offset;
    int64_t *sizes; /* and, behind them, the strides */
} View;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    void *function;
    reinterpret_function reinterpret;
    release_function release;
    int scaled;
    Py_ssize_t count;
    View views[AT_MOST];
    uint64_t keys[2];
    PyObject *otherwise;
} Product;

static int
is_plain(const Product *self, PyObject *tensor)
{
    void *impl = is_of_plain_class(tensor) ? implementation(tensor) : NULL;
    return impl != NULL && (keys_of(impl) == self->keys[0] || keys_of(impl) == self->keys[1]);
}

static int32_t
call_function(const Product *self, void **handles)
{
    if (self->scaled)
        return ((scaled_function)self->function)(handles[0], handles[1], handles[2], handles[3], 1.0, 1.0);
    return ((plain_function)self->function)(handles[0], handles[1], handles[2]);
}

/* 0, or an error's number.  The arguments are kept alive by the caller's frame, so this needs no lock. */
static int32_t
multiply(const Product *self, PyObject *const *args)
{
    void *handles[AT_MOST], *made[AT_MOST] = {NULL};
    int32_t code = 0;
    for (Py_ssize_t i = 0; i < self->count && code == 0; i++) {
        const View *view = &self->views[i];
        handles[i] = tensor_handle(args[i]);
        if (!view->is_whole) {
            code = self->reinterpret(handles[i], view->rank, view->sizes, view->sizes + view->rank, view->offset, &made[i]);
            handles[i] = made[i];
        }
    }
    if (code == 0)
        code = call_function(self, handles);
    for (Py_ssize_t i = 0; i < self->count; i++)
        if (made[i] != NULL)
            self->release(made[i]);
    return code;
}

static PyObject *
product_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Product *self = (Product *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (given != self->count || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "this product takes %zd tensors, by position; %zd given", self->count, given);
    int plain = 1;
    for (Py_ssize_t i = 0; i < given && plain; i++)
        plain = is_plain(self, args[i]);
    int32_t code = -1;
    if (plain) {
        Py_BEGIN_ALLOW_THREADS
        code = multiply(self, args);
        Py_END_ALLOW_THREADS
    }
    if (code != 0)
        return PyObject_Vectorcall(self->otherwise, args, (size_t)given, NULL);
    Py_RETURN_NONE;
}

/* ---- making ---- */

static int
read_numbers(PyObject *numbers, int64_t *result)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
        result[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, i));
        if (result[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static int
read_view(PyObject *description, View *view)
{
    view->is_whole = description == Py_None;
    if (view->is_whole)
        return 0;
    PyObject *sizes, *strides;
    if (!PyTuple_Check(description)) {
        PyErr_SetString(PyExc_TypeError, "a view is None or a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(description, "O!O!L", &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &view->offset))
        return -1;
    view->rank = PyTuple_GET_SIZE(sizes);
    if (PyTuple_GET_SIZE(strides) != view->rank) {
        PyErr_SetString(PyExc_ValueError, "a view has as many strides as sizes");
        return -1;
    }
    view->sizes = PyMem_Calloc((size_t)view->rank * 2 + 1, sizeof(int64_t));
    if (view->sizes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return read_numbers(sizes, view->sizes) < 0 ? -1 : read_numbers(strides, view->sizes + view->rank);
}

static PyObject *
product_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "reinterpret", "release", "scaled", "views", "keys", "otherwise", NULL};
    unsigned long long function, reinterpret, release, keys[2];
    int scaled;
    PyObject *views, *otherwise;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKKpO!(KK)O", names, &function, &reinterpret, &release, &scaled,
                                     &PyTuple_Type, &views, &keys[0], &keys[1], &otherwise))
        return NULL;
    if (!torch_layout.is_known || function == 0 || PyTuple_GET_SIZE(views) != 3 + scaled)
        return PyErr_Format(PyExc_ValueError, "a product needs a function, %d views, and tensors that can be read",
                            3 + scaled);
    Product *self = (Product *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = product_vectorcall;
    self->function = (void *)(uintptr_t)function;
    self->reinterpret = (reinterpret_function)(uintptr_t)reinterpret;
    self->release = (release_function)(uintptr_t)release;
    self->scaled = scaled;
    self->count = 3 + scaled;
    self->keys[0] = keys[0], self->keys[1] = keys[1];
    self->otherwise = Py_NewRef(otherwise);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (read_view(PyTuple_GET_ITEM(views, i), &self->views[i]) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int
product_traverse(Product *self, visitproc visit, void *arg)
{
    Py_VISIT(self->otherwise);
    return 0;
}

/* Nothing is cleared: `otherwise` is a Python object through whose own attributes a cycle can be cleared. */
static void
product_dealloc(Product *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->count; i++)
        PyMem_Free(self->views[i].sizes);
    Py_XDECREF(self->otherwise);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject product_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.runtime._products.Product",
    .tp_doc = PyDoc_STR("A matrix product of ATen, callable with its result and its operands; see products.c."),
    .tp_basicsize = sizeof(Product),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = product_new,
    .tp_dealloc = (destructor)product_dealloc,
    .tp_traverse = (traverseproc)product_traverse,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Product, vectorcall),
};

static PyMethodDef product_methods[] = {USE_LAYOUT, {NULL}};

static struct PyModuleDef product_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_products",
    .m_doc = PyDoc_STR("Matrix products; see products.c."),
    .m_size = -1,
    .m_methods = product_methods,
};

PyMODINIT_FUNC
PyInit__products(void)
{
    PyObject *module = PyModule_Create(&product_module);
    if (module == NULL || PyModule_AddType(module, &product_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
