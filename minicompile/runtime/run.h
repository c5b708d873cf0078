/* Consecutive kernels as one call, for launch.c and launch_cuda.c, which say what a kernel is and how several are run.
 *
 * In:   Run(steps, n_tensors, otherwise), where `steps` is a tuple of (kernel, places), and `places` has for each buffer
 *       of the kernel (number of a tensor, bytes from where it starts); and then, on each call, n_tensors objects that
 *       have data_ptr().
 * Out:  None; all kernels have been called, in order. Calls that only Python can sort out go to `otherwise`, with the
 *       same tensors.
 *
 * Between two kernels nothing happens but additions to addresses: no tensor is made, and no lock taken.
 */
#ifndef MINICOMPILE_RUN_H
#define MINICOMPILE_RUN_H

#include "torch_tensor.h"
#include <stddef.h>

typedef struct {
    Py_ssize_t tensor;
    Py_ssize_t offset; /* in bytes */
} Place;

typedef struct {
    PyObject *kernel;
    Py_ssize_t count; /* of its buffers */
    Place *places;
} Step;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Py_ssize_t n_tensors, n_steps;
    Py_ssize_t widest; /* most buffers of a step */
    Step *steps;
    PyObject *otherwise;
    void *own; /* of the file that includes this one; NULL at first */
} Run;

enum { RUN_ON_STACK = 96 }; /* addresses; runs that need more put them on the heap */

/* What the file that includes this one defines: a kernel's type; how many buffers a kernel has, -1 for one that cannot be
   a step; how the steps are run on tensors that lie at `addresses`, with room for a step's addresses in `buffers`; and how
   `own` is given back. */
static PyTypeObject *const step_type;
static Py_ssize_t buffers_of(PyObject *kernel);
static PyObject *run_steps(Run *self, PyObject *const *tensors, char **addresses, void **buffers);
static void drop_own(void *own);

static inline void
look_up(const Step *step, char **addresses, void **buffers)
{
    for (Py_ssize_t i = 0; i < step->count; i++)
        buffers[i] = addresses[step->places[i].tensor] + step->places[i].offset;
}

static PyObject *
run_at(Run *self, PyObject *const *tensors, void **slots)
{
    for (Py_ssize_t i = 0; i < self->n_tensors; i++) {
        if (address_of(tensors[i], &slots[i]) < 0)
            return NULL;
    }
    return run_steps(self, tensors, (char **)slots, slots + self->n_tensors);
}

static PyObject *
run_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Run *self = (Run *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf), slots = self->n_tensors + self->widest;
    if (given != self->n_tensors || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "this run of kernels takes %zd tensors, by position; %zd arguments given",
                            self->n_tensors, given + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    if (slots <= RUN_ON_STACK) {
        void *on_stack[RUN_ON_STACK];
        return run_at(self, args, on_stack);
    }
    void **on_heap = PyMem_Calloc((size_t)slots, sizeof(void *));
    if (on_heap == NULL)
        return PyErr_NoMemory();
    PyObject *result = run_at(self, args, on_heap);
    PyMem_Free(on_heap);
    return result;
}

/* ---- making ---- */

static int
read_place(const Run *self, PyObject *item, Place *place)
{
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "nn", &place->tensor, &place->offset)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a place is a tuple");
        return -1;
    }
    if (place->tensor < 0 || place->tensor >= self->n_tensors || place->offset < 0) {
        PyErr_Format(PyExc_ValueError, "a run of %zd tensors has no place (%zd, %zd)", self->n_tensors, place->tensor,
                     place->offset);
        return -1;
    }
    return 0;
}

static int
read_step(Run *self, PyObject *item, Step *step)
{
    PyObject *kernel, *places;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "O!O!", step_type, &kernel, &PyTuple_Type, &places))
        return -1;
    step->kernel = Py_NewRef(kernel);
    step->count = PyTuple_GET_SIZE(places);
    if (step->count != buffers_of(kernel)) {
        PyErr_Format(PyExc_ValueError, "%R has other buffers than %zd", kernel, step->count);
        return -1;
    }
    step->places = PyMem_Calloc((size_t)step->count + 1, sizeof(Place));
    if (step->places == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (step->count > self->widest)
        self->widest = step->count;
    for (Py_ssize_t i = 0; i < step->count; i++) {
        if (read_place(self, PyTuple_GET_ITEM(places, i), &step->places[i]) < 0)
            return -1;
    }
    return 0;
}

static PyObject *
run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"steps", "n_tensors", "otherwise", NULL};
    PyObject *steps, *otherwise;
    Py_ssize_t n_tensors;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO", names, &PyTuple_Type, &steps, &n_tensors, &otherwise))
        return NULL;
    if (n_tensors < 0 || n_tensors > INT32_MAX || PyTuple_GET_SIZE(steps) == 0) {
        PyErr_SetString(PyExc_ValueError, "a run has steps, and a count of tensors that is not negative");
        return NULL;
    }
    Run *self = (Run *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = run_vectorcall;
    self->n_tensors = n_tensors;
    self->otherwise = Py_NewRef(otherwise);
    self->steps = PyMem_Calloc((size_t)PyTuple_GET_SIZE(steps), sizeof(Step));
    if (self->steps == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    while (self->n_steps < PyTuple_GET_SIZE(steps)) {
        Step *step = &self->steps[self->n_steps++];
        if (read_step(self, PyTuple_GET_ITEM(steps, self->n_steps - 1), step) < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int
run_traverse(Run *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->n_steps; i++)
        Py_VISIT(self->steps[i].kernel);
    Py_VISIT(self->otherwise);
    return 0;
}

/* Nothing is cleared, as in a kernel: `otherwise` is a Python object, through whose own attributes a cycle can be. */
static void
run_dealloc(Run *self)
{
    PyObject_GC_UnTrack(self);
    drop_own(self->own);
    for (Py_ssize_t i = 0; i < self->n_steps; i++) {
        Py_XDECREF(self->steps[i].kernel);
        PyMem_Free(self->steps[i].places);
    }
    PyMem_Free(self->steps);
    Py_XDECREF(self->otherwise);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
run_repr(Run *self)
{
    return PyUnicode_FromFormat("<run of %zd kernels: %zd tensors>", self->n_steps, self->n_tensors);
}

static PyTypeObject run_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.runtime.Run",
    .tp_doc = PyDoc_STR("Run(steps, n_tensors, otherwise): consecutive kernels, callable as one; see run.h."),
    .tp_basicsize = sizeof(Run),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = run_new,
    .tp_dealloc = (destructor)run_dealloc,
    .tp_traverse = (traverseproc)run_traverse,
    .tp_repr = (reprfunc)run_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Run, vectorcall),
};

#endif
