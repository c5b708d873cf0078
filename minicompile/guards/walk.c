/* minicompile.guards._walk: read through objects, and compare what is met, in one call.
 *
 * In:   Walk(steps, inputs): a program over registers, of which the first `inputs` are the arguments of a call.  A step is
 *       a tuple of a kind, a register and, but for "attributes", an object:
 *           ("item", r, key)      a new register: r[key]
 *           ("attributes", r)     a new register: r.__dict__
 *           ("type", r, class)    type(r) is class
 *           ("weak type", r, ref) type(r) is ref()
 *           ("is", r, object)     r is object
 *           ("equal", r, value)   of exactly value's type, and equal to it; only for types of Python's own
 *           ("absent", r, key)    key not in r
 * Out:  None as soon as a comparison fails; else a tuple of all new registers, in order.  What a reading raises is raised.
 *
 * That is what lines of Python would do, one after the other, in the same order, at a fifth of the cost.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>

typedef enum { ITEM, ATTRIBUTES, TYPE, WEAK_TYPE, IS, EQUAL, ABSENT, KINDS } Kind;

static const char *const kind_names[KINDS] = {"item", "attributes", "type", "weak type", "is", "equal", "absent"};

typedef struct {
    Kind kind;
    Py_ssize_t source;
    PyObject *object; /* NULL for ATTRIBUTES */
} Step;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Py_ssize_t inputs, count, made; /* arguments, steps, new registers */
    Step *steps;
} Walk;

static PyObject *dict_name; /* the interned string "__dict__" */

static PyObject *
read_item(PyObject *container, PyObject *key)
{
    if (!PyDict_CheckExact(container))
        return PyObject_GetItem(container, key);
    PyObject *item = PyDict_GetItemWithError(container, key);
    if (item == NULL && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, key);
    return Py_XNewRef(item);
}

static int
has_weak_type(PyObject *value, PyObject *reference)
{
    PyObject *type = PyObject_CallNoArgs(reference);
    if (type == NULL)
        return -1;
    int holds = (PyObject *)Py_TYPE(value) == type;
    Py_DECREF(type);
    return holds;
}

/* 1 or 0; -1 with an exception. */
static int
holds(const Step *step, PyObject *value)
{
    int found;
    switch (step->kind) {
    case TYPE:
        return (PyObject *)Py_TYPE(value) == step->object;
    case WEAK_TYPE:
        return has_weak_type(value, step->object);
    case IS:
        return value == step->object;
    case EQUAL:
        return Py_TYPE(value) == Py_TYPE(step->object) ? PyObject_RichCompareBool(value, step->object, Py_EQ) : 0;
    default: /* ABSENT */
        found = PyDict_CheckExact(value) ? PyDict_Contains(value, step->object) : PySequence_Contains(value, step->object);
        return found < 0 ? -1 : !found;
    }
}

/* The value of a register: an argument, or what a step has put into the result. */
static PyObject *
register_of(const Walk *self, PyObject *const *args, PyObject *result, Py_ssize_t number)
{
    return number < self->inputs ? args[number] : PyTuple_GET_ITEM(result, number - self->inputs);
}

/* 1: all hold, 0: one does not, -1: an exception. */
static int
run_steps(const Walk *self, PyObject *const *args, PyObject *result)
{
    Py_ssize_t made = 0;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const Step *step = &self->steps[i];
        PyObject *value = register_of(self, args, result, step->source);
        if (step->kind == ITEM || step->kind == ATTRIBUTES) {
            PyObject *read = step->kind == ITEM ? read_item(value, step->object) : PyObject_GetAttr(value, dict_name);
            if (read == NULL)
                return -1;
            PyTuple_SET_ITEM(result, made++, read);
            continue;
        }
        int answer = holds(step, value);
        if (answer != 1)
            return answer;
    }
    return 1;
}

static PyObject *
walk_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Walk *self = (Walk *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (given != self->inputs || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "this walk starts from %zd objects, by position; %zd given", self->inputs, given);
    PyObject *result = PyTuple_New(self->made);
    if (result == NULL)
        return NULL;
    int answer = run_steps(self, args, result);
    if (answer == 1)
        return result;
    Py_DECREF(result);
    if (answer < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- making ---- */

static int
read_step(const Walk *self, PyObject *description, Step *step)
{
    const char *kind;
    PyObject *object = NULL;
    if (!PyTuple_Check(description)) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(description, "sn|O", &kind, &step->source, &object))
        return -1;
    for (step->kind = 0; step->kind < KINDS && strcmp(kind, kind_names[step->kind]) != 0;)
        step->kind++;
    if (step->kind == KINDS || (object == NULL) != (step->kind == ATTRIBUTES) || step->source < 0 ||
        step->source >= self->inputs + self->made) {
        PyErr_Format(PyExc_ValueError, "no step: %R", description);
        return -1;
    }
    step->object = Py_XNewRef(object);
    return 0;
}

static PyObject *
walk_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"steps", "inputs", NULL};
    PyObject *steps;
    Py_ssize_t inputs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!n", names, &PyTuple_Type, &steps, &inputs))
        return NULL;
    Walk *self = (Walk *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = walk_vectorcall;
    self->inputs = inputs;
    self->steps = PyMem_Calloc((size_t)PyTuple_GET_SIZE(steps) + 1, sizeof(Step));
    if (self->steps == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        Step *step = &self->steps[i];
        if (read_step(self, PyTuple_GET_ITEM(steps, i), step) < 0) {
            Py_DECREF(self);
            return NULL;
        }
        self->count++;
        self->made += step->kind == ITEM || step->kind == ATTRIBUTES;
    }
    return (PyObject *)self;
}

static int
walk_traverse(Walk *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->steps[i].object);
    return 0;
}

/* Nothing is cleared: the objects are classes, keys and constants, through whose own attributes a cycle is cleared. */
static void
walk_dealloc(Walk *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_XDECREF(self->steps[i].object);
    PyMem_Free(self->steps);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject walk_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.guards._walk.Walk",
    .tp_doc = PyDoc_STR("Walk(steps, inputs): reads through objects and compares what is met; see walk.c."),
    .tp_basicsize = sizeof(Walk),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = walk_new,
    .tp_dealloc = (destructor)walk_dealloc,
    .tp_traverse = (traverseproc)walk_traverse,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Walk, vectorcall),
};

static struct PyModuleDef walk_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_walk",
    .m_doc = PyDoc_STR("Reading through objects; see walk.c."),
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__walk(void)
{
    dict_name = PyUnicode_InternFromString("__dict__");
    PyObject *module = PyModule_Create(&walk_module);
    if (module == NULL || dict_name == NULL || PyModule_AddType(module, &walk_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
