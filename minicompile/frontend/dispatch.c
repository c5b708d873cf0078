/* minicompile.frontend._dispatch: find the entry of a segment that fits a call.
 *
 * In:   Dispatch(entries, miss, MISS): `entries` has the compiled entries as a tuple in its attribute `entries`, the
 *       latest first, and takes note of a use by `use(entry)`; and, on each call, the function and its argument slots.
 * Out:  what the first entry returned that did not return MISS; else what miss(function, slots, tried) returns.
 *
 * The same in Python costs a frame, and a tuple of the slots for each call of each entry.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include "structmember.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *entries, *miss, *marker;
    PyObject *weak_references; /* code objects refer to dispatchers weakly; see eval_frame.c */
} Dispatch;

static PyObject *entries_name, *run_name, *use_name; /* interned */

static PyObject *
run_entry(PyObject *entry, PyObject *const *args, Py_ssize_t count)
{
    PyObject *run = PyObject_GetAttr(entry, run_name);
    if (run == NULL)
        return NULL;
    PyObject *result = PyObject_Vectorcall(run, args, (size_t)count, NULL);
    Py_DECREF(run);
    return result;
}

/* Steals `result`. */
static PyObject *
after_use(Dispatch *self, PyObject *entry, PyObject *result)
{
    PyObject *done = PyObject_CallMethodOneArg(self->entries, use_name, entry);
    if (done == NULL) {
        Py_DECREF(result);
        return NULL;
    }
    Py_DECREF(done);
    return result;
}

static PyObject *
call_miss(Dispatch *self, PyObject *const *args, Py_ssize_t count, PyObject *tried)
{
    PyObject *slots = PyTuple_New(count - 1);
    if (slots == NULL)
        return NULL;
    for (Py_ssize_t i = 1; i < count; i++)
        PyTuple_SET_ITEM(slots, i - 1, Py_NewRef(args[i]));
    PyObject *result = PyObject_CallFunctionObjArgs(self->miss, args[0], slots, tried, NULL);
    Py_DECREF(slots);
    return result;
}

static PyObject *
dispatch_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Dispatch *self = (Dispatch *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (count < 1 || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "a dispatcher takes a function and its argument slots, by position");
    PyObject *tried = PyObject_GetAttr(self->entries, entries_name); /* another thread may put a new tuple there */
    if (tried == NULL)
        return NULL;
    if (!PyTuple_Check(tried)) {
        Py_DECREF(tried);
        return PyErr_Format(PyExc_TypeError, "entries are a tuple");
    }
    PyObject *result = NULL;
    Py_ssize_t i = 0, known = PyTuple_GET_SIZE(tried);
    for (; i < known; i++) {
        result = run_entry(PyTuple_GET_ITEM(tried, i), args, count);
        if (result != self->marker)
            break;
        Py_DECREF(result);
    }
    if (i == known)
        result = call_miss(self, args, count, tried);
    else if (result != NULL && i != 0)
        result = after_use(self, PyTuple_GET_ITEM(tried, i), result);
    Py_DECREF(tried);
    return result;
}

static PyObject *
dispatch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"entries", "miss", "marker", NULL};
    PyObject *entries, *miss, *marker;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO", names, &entries, &miss, &marker))
        return NULL;
    Dispatch *self = (Dispatch *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = dispatch_vectorcall;
    self->entries = Py_NewRef(entries);
    self->miss = Py_NewRef(miss);
    self->marker = Py_NewRef(marker);
    return (PyObject *)self;
}

static int
dispatch_traverse(Dispatch *self, visitproc visit, void *arg)
{
    Py_VISIT(self->entries);
    Py_VISIT(self->miss);
    Py_VISIT(self->marker);
    return 0;
}

/* Nothing is cleared: a dispatcher that can be called needs all of it.  The cycle goes through the segment, whose
   attributes the collector clears. */
static void
dispatch_dealloc(Dispatch *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    Py_XDECREF(self->entries);
    Py_XDECREF(self->miss);
    Py_XDECREF(self->marker);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject dispatch_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.frontend._dispatch.Dispatch",
    .tp_doc = PyDoc_STR("Dispatch(entries, miss, marker): finds the entry that fits a call; see dispatch.c."),
    .tp_basicsize = sizeof(Dispatch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = dispatch_new,
    .tp_dealloc = (destructor)dispatch_dealloc,
    .tp_traverse = (traverseproc)dispatch_traverse,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Dispatch, vectorcall),
    .tp_weaklistoffset = offsetof(Dispatch, weak_references),
};

static struct PyModuleDef dispatch_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_dispatch",
    .m_doc = PyDoc_STR("Finding entries; see dispatch.c."),
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__dispatch(void)
{
    entries_name = PyUnicode_InternFromString("entries");
    run_name = PyUnicode_InternFromString("run");
    use_name = PyUnicode_InternFromString("use");
    PyObject *module = PyModule_Create(&dispatch_module);
    if (module == NULL || !entries_name || !run_name || !use_name || PyModule_AddType(module, &dispatch_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
