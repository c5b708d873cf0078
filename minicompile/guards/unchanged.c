/* minicompile.guards._unchanged: whether what a check has read is still what it was, without reading it again.
 *
 * In:   Unchanged(steps, inputs, exports): a program over registers, of which the first `inputs` are the arguments of a
 *       call.  A step is a tuple; the first kinds make a new register:
 *           ("object", o)            o
 *           ("attributes", r)        r.__dict__, and that dict is to stay as it is
 *           ("item", r, key)         r[key]
 *           ("attribute", r, name)   getattr(r, name), of a class
 *           ("member", r, name)      r.__globals__, r.__builtins__ or r.__code__ of a function; a property's r.fget, r.fset
 *           ("default", r, index)    r.__defaults__[index], of a function
 *           ("cell", r, index)       r.__closure__[index].cell_contents, of a function
 *           ("slot", r, name)        r.name, where that is a member of __slots__
 *       and the others say what is to stay as it is:
 *           ("type", r)              the type of r
 *           ("contents", r)          what the dict or tuple r holds, as far as it is read or the next two say so
 *           ("key", r, key)          r's having this key or not, and its value
 *           ("whole", r)             all keys of r, and their order
 *           ("empty", r)             r's being empty: a tuple or a dict, its subclasses too, whose order no version tells
 *           ("code", r)              the code of the function r
 *           ("class", r)             the attributes of the class r, its bases' included
 * Out:  unchanged(*inputs): a tuple of the registers `exports` if all that was settled for them holds, else None.
 *       note(*inputs): runs the program and returns what it saw; None if that cannot be watched.  No user code runs.
 *       settle(noted): from now on that counts.
 *
 * A dict has a version, which is another one after each change and is never used twice (PEP 509), and so has a class
 * (tp_version_tag).  If the version of every dict on the way from an argument to a value is the same, so is the value:
 * a few hundred comparisons of numbers stand for thousands of lines of Python.  torch's Dynamo does the same with
 * dicts' tags (torch/csrc/dynamo/guards.cpp).  Where a dict's version differs, and not all of it was read, the keys
 * that were are looked up: a module that counts its calls in an attribute is not another one after each of them.
 *
 * Nothing large of the user's is kept alive (unchanged_notes.h).  Objects are remembered by address, but an address alone never decides: what
 * hangs on an argument is reached through dicts whose versions agree, and so is alive.  (An argument's address may have
 * become another object's; that has no dict of the same version.)
 *
 * The caller notes first, then checks, then settles, while it keeps the arguments: what another thread has changed in
 * between has another version, or holds another object, and is not remembered.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>
#include "structmember.h"

/* Since 3.13 an attribute that is stored in the object itself, beside its dict, leaves the dict's version as it is (and
 * 3.13.0 tells no watcher of the dict either); since 3.14 there is no version. */
#if PY_VERSION_HEX < 0x030D0000

enum { ENTRIES = 32, FRUITLESS = 64 }; /* sets of arguments remembered; changes in a row after which nothing more is */

typedef enum {
    OBJECT, ATTRIBUTES, ITEM, ATTRIBUTE, MEMBER, DEFAULT, CELL, SLOT, /* make a register */
    TYPE, CONTENTS, KEY, WHOLE, EMPTY, CODE, CLASS, KINDS
} Kind;

static const char *const kind_names[KINDS] = {
    "object", "attributes", "item", "attribute", "member", "default", "cell", "slot",
    "type", "contents", "key", "whole", "empty", "code", "class",
};

typedef struct {
    Kind kind;
    Py_ssize_t source;
    PyObject *object; /* key, name or index; NULL where there is none */
} Step;

typedef enum { OWN_DICT, DICT, IS_EMPTY, HAS_TYPE, HAS_CODE, HAS_DEFAULT, HAS_IN_CELL, HAS_IN_SLOT, HAS_TAG } Fact;

enum { ALL_OF_IT = -1 };

typedef struct {
    Fact fact;
    int keys; /* of a dict: index of the last `Key` noted, 0 if there is none, or ALL_OF_IT */
    PyObject *at, *expected; /* borrowed; what else has no version is in `kept` */
    uint64_t version; /* or an index, or an offset */
} Record;

typedef struct {
    PyObject *key, *expected; /* borrowed; NULL: the key is to be absent */
    int next, is_dict; /* a dict is known by its address: its own record tells the rest */
} Key;

typedef struct {
    PyObject_HEAD
    Py_ssize_t inputs, count, exported;
    PyObject **addresses;  /* borrowed: the arguments, then the exports */
    Record *records;
    Key *keys;             /* from 1 */
    int key_count;
    Py_ssize_t *record_of; /* register -> the record of the dict in it, or -1; only while noting */
    PyObject *kept;        /* a list: code objects, constants, and weak references to what is no constant */
} Noted;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Py_ssize_t inputs, count, made, exported;
    Step *steps;
    Py_ssize_t *exports;
    Noted *entries[ENTRIES];
    int next, fruitless;
} Unchanged;

static PyObject *dict_name, *reader_name; /* interned strings: "__dict__", "__getattribute__" */

/* ---- versions ---- */

PyAPI_FUNC(PyObject **) _PyObject_GetDictPtr(PyObject *);
PyAPI_FUNC(PyObject *) _PyType_Lookup(PyTypeObject *, PyObject *);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* ma_version_tag, by 3.12 */

static uint64_t
version_of(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_version_tag;
}

/* Whether the value is what was held, itself or by a weak reference. A dead one yields None, which is never held so. */
static int
is_held(PyObject *value, PyObject *held)
{
    if (PyWeakref_CheckRef(held))
        return value != Py_None && value == PyWeakref_GET_OBJECT(held);
    return value == held;
}
#pragma GCC diagnostic pop

static unsigned int
tag_of(PyTypeObject *type)
{
    _PyType_Lookup(type, dict_name); /* gives the class a tag, if it can have one */
    return type->tp_version_tag;
}

/* ---- asking ---- */

/* Borrowed; NULL where there is no such item, or no tuple. */
static PyObject *
item_at(PyObject *tuple, Py_ssize_t index)
{
    int there = tuple != NULL && index >= 0 && index < PyTuple_GET_SIZE(tuple);
    return there ? PyTuple_GET_ITEM(tuple, index) : NULL;
}

static PyObject *
default_of(PyObject *function, Py_ssize_t index)
{
    return item_at(PyFunction_GET_DEFAULTS(function), index);
}

static PyObject *
in_cell_of(PyObject *function, Py_ssize_t index)
{
    PyObject *cell = item_at(PyFunction_GET_CLOSURE(function), index);
    return cell == NULL ? NULL : PyCell_GET(cell);
}

static PyObject *
in_slot_of(PyObject *owner, Py_ssize_t offset)
{
    return *(PyObject **)((char *)owner + offset);
}

static int
has_key(PyObject *dict, const Key *key)
{
    PyObject *value = PyDict_GetItemWithError(dict, key->key);
    if (value == NULL || key->expected == NULL) {
        int is_absent = value == NULL && PyErr_Occurred() == NULL;
        PyErr_Clear();
        return is_absent && key->expected == NULL;
    }
    if (key->is_dict)
        return value == key->expected && PyDict_CheckExact(value);
    return is_held(value, key->expected);
}

/* Whether a dict is as it was, as far as it was read; `strictly`: nobody has touched it. */
static int
is_same(const Noted *noted, Record *record, PyObject *dict, int strictly)
{
    uint64_t version = version_of(dict);
    if (version == record->version)
        return 1;
    if (strictly || record->keys == ALL_OF_IT)
        return 0;
    for (int i = record->keys; i != 0; i = noted->keys[i].next)
        if (!has_key(dict, &noted->keys[i]))
            return 0;
    record->version = version;
    return 1;
}

static int
holds(const Noted *noted, Record *record, int strictly)
{
    PyObject *at = record->at, **dict;
    switch (record->fact) {
    case OWN_DICT:
        dict = _PyObject_GetDictPtr(at);
        return dict != NULL && *dict == record->expected && is_same(noted, record, *dict, strictly);
    case DICT:
        return is_same(noted, record, at, strictly);
    case IS_EMPTY:
        return PyDict_GET_SIZE(at) == 0;
    case HAS_TYPE:
        return is_held((PyObject *)Py_TYPE(at), record->expected);
    case HAS_CODE:
        return PyFunction_GET_CODE(at) == record->expected;
    case HAS_DEFAULT:
        return is_held(default_of(at, (Py_ssize_t)record->version), record->expected);
    case HAS_IN_CELL:
        return is_held(in_cell_of(at, (Py_ssize_t)record->version), record->expected);
    case HAS_IN_SLOT:
        return is_held(in_slot_of(at, (Py_ssize_t)record->version), record->expected);
    default: /* HAS_TAG */
        return ((PyTypeObject *)at)->tp_version_tag == record->version;
    }
}

static Noted *
noted_for(Unchanged *self, PyObject *const *args)
{
    size_t size = (size_t)self->inputs * sizeof(PyObject *);
    for (int i = 0; i < ENTRIES && self->entries[i] != NULL; i++)
        if (memcmp(self->entries[i]->addresses, args, size) == 0)
            return self->entries[i];
    return NULL;
}

static int
all_hold(const Noted *noted, int strictly)
{
    for (Py_ssize_t i = 0; i < noted->count; i++)
        if (!holds(noted, &noted->records[i], strictly))
            return 0;
    return 1;
}

static PyObject *
values_of(const Noted *noted)
{
    PyObject *values = PyTuple_New(noted->exported);
    for (Py_ssize_t i = 0; values != NULL && i < noted->exported; i++)
        PyTuple_SET_ITEM(values, i, Py_NewRef(noted->addresses[noted->inputs + i]));
    return values;
}

static PyObject *
unchanged_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Unchanged *self = (Unchanged *)callable;
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    if (given != self->inputs || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0))
        return PyErr_Format(PyExc_TypeError, "takes %zd objects, by position; %zd given", self->inputs, given);
    Noted *noted = (Noted *)Py_XNewRef((PyObject *)noted_for(self, args)); /* making a dict may run the collector */
    if (noted == NULL)
        Py_RETURN_NONE;
    PyObject *result = all_hold(noted, 0) ? values_of(noted) : Py_NewRef(Py_None);
    if (result != Py_None)
        self->fruitless = 0;
    Py_DECREF(noted);
    return result;
}

#include "unchanged_notes.h"

/* ---- noting ---- */

static PyObject *
register_of(const Unchanged *self, PyObject *const *args, PyObject *const *made, Py_ssize_t number)
{
    return number < self->inputs ? args[number] : made[number - self->inputs];
}

static int
run_steps(const Unchanged *self, Noted *noted, PyObject *const *args, PyObject **made)
{
    Py_ssize_t count = 0;
    int answer = 1;
    for (Py_ssize_t i = 0; i < self->count && answer == 1; i++) {
        const Step *step = &self->steps[i];
        PyObject *value = step->kind == OBJECT ? NULL : register_of(self, args, made, step->source);
        if (step->kind < TYPE) {
            answer = note_read(noted, step, value, &made[count]);
            noted->record_of[self->inputs + count++] = step->kind == ATTRIBUTES ? noted->count - 1 : -1;
        } else
            answer = note_fact(noted, step, value);
    }
    return answer;
}

static void
take_addresses(const Unchanged *self, Noted *noted, PyObject *const *args, PyObject *const *made)
{
    for (Py_ssize_t i = 0; i < self->inputs; i++)
        noted->addresses[i] = args[i];
    for (Py_ssize_t i = 0; i < self->exported; i++)
        noted->addresses[self->inputs + i] = register_of(self, args, made, self->exports[i]);
}

static PyTypeObject noted_type, unchanged_type;

static Noted *
empty_noted(const Unchanged *self)
{
    Noted *noted = (Noted *)noted_type.tp_alloc(&noted_type, 0);
    if (noted == NULL)
        return NULL;
    noted->inputs = self->inputs;
    noted->exported = self->exported;
    noted->records = PyMem_Calloc(2 * (size_t)self->count + 1, sizeof(Record)); /* a step leaves two at most */
    noted->addresses = PyMem_Calloc((size_t)(self->inputs + self->exported) + 1, sizeof(PyObject *));
    noted->keys = PyMem_Calloc((size_t)self->count + 1, sizeof(Key));
    noted->record_of = PyMem_Calloc((size_t)(self->inputs + self->made) + 1, sizeof(Py_ssize_t));
    noted->kept = PyList_New(0);
    if (noted->records == NULL || noted->addresses == NULL || noted->keys == NULL || noted->record_of == NULL ||
        noted->kept == NULL) {
        Py_DECREF(noted);
        return (Noted *)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < self->inputs + self->made; i++)
        noted->record_of[i] = -1;
    return noted;
}

/* What was taken for the largest case, or for the time of noting. */
static void
shrink(Noted *noted)
{
    PyMem_Free(noted->record_of);
    noted->record_of = NULL;
    Record *records = PyMem_Realloc(noted->records, (size_t)(noted->count + 1) * sizeof(Record));
    noted->records = records != NULL ? records : noted->records;
    Key *keys = PyMem_Realloc(noted->keys, (size_t)(noted->key_count + 1) * sizeof(Key));
    noted->keys = keys != NULL ? keys : noted->keys;
}

static PyObject *
unchanged_note(Unchanged *self, PyObject *const *args, Py_ssize_t given)
{
    if (given != self->inputs)
        return PyErr_Format(PyExc_TypeError, "takes %zd objects; %zd given", self->inputs, given);
    if (self->fruitless >= FRUITLESS) /* what always changes is not worth noting */
        Py_RETURN_NONE;
    Noted *noted = empty_noted(self);
    PyObject **made = PyMem_Calloc((size_t)self->made + 1, sizeof(PyObject *));
    int answer = noted == NULL || made == NULL ? -1 : run_steps(self, noted, args, made);
    if (answer == 1)
        take_addresses(self, noted, args, made);
    for (Py_ssize_t i = 0; made != NULL && i < self->made; i++)
        Py_XDECREF(made[i]);
    PyMem_Free(made);
    if (answer == 1) {
        shrink(noted);
        return (PyObject *)noted;
    }
    PyErr_Clear(); /* the check will say what is wrong */
    Py_XDECREF(noted);
    Py_RETURN_NONE;
}

static void
remember(Unchanged *self, Noted *noted)
{
    int place = 0;
    size_t size = (size_t)self->inputs * sizeof(PyObject *);
    while (place < ENTRIES && self->entries[place] != NULL &&
           memcmp(self->entries[place]->addresses, noted->addresses, size) != 0)
        place++;
    if (place == ENTRIES)
        place = self->next++ % ENTRIES;
    Noted *before = self->entries[place];
    self->entries[place] = (Noted *)Py_NewRef((PyObject *)noted);
    Py_XDECREF(before);
}

static PyObject *
unchanged_settle(Unchanged *self, PyObject *noted)
{
    if (noted == Py_None)
        Py_RETURN_NONE;
    if (!Py_IS_TYPE(noted, &noted_type) || ((Noted *)noted)->inputs != self->inputs) {
        PyErr_SetString(PyExc_TypeError, "settle() takes what note() returned");
        return NULL;
    }
    self->fruitless++;
    if (all_hold((Noted *)noted, 1))
        remember(self, (Noted *)noted);
    Py_RETURN_NONE;
}

/* ---- making ---- */

static int
read_step(const Unchanged *self, PyObject *description, Step *step)
{
    int is_tuple = PyTuple_Check(description) && PyTuple_GET_SIZE(description) > 0;
    PyObject *kind = is_tuple ? PyTuple_GET_ITEM(description, 0) : Py_None;
    for (step->kind = 0; step->kind < KINDS && !(PyUnicode_Check(kind) &&
         PyUnicode_CompareWithASCIIString(kind, kind_names[step->kind]) == 0);)
        step->kind++;
    int has_register = step->kind != OBJECT;
    int has_object = (step->kind != ATTRIBUTES && step->kind < TYPE) || step->kind == KEY;
    if (step->kind == KINDS || PyTuple_GET_SIZE(description) != 1 + has_register + has_object)
        return -1;
    step->source = has_register ? PyLong_AsSsize_t(PyTuple_GET_ITEM(description, 1)) : 0;
    if (has_register && (step->source < 0 || step->source >= self->inputs + self->made))
        return -1;
    step->object = has_object ? Py_NewRef(PyTuple_GET_ITEM(description, 1 + has_register)) : NULL;
    return 0;
}

static int
read_steps(Unchanged *self, PyObject *steps)
{
    self->steps = PyMem_Calloc((size_t)PyTuple_GET_SIZE(steps) + 1, sizeof(Step));
    if (self->steps == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        if (read_step(self, PyTuple_GET_ITEM(steps, i), &self->steps[i]) < 0) {
            PyErr_Format(PyExc_ValueError, "no step: %R", PyTuple_GET_ITEM(steps, i));
            return -1;
        }
        self->count++;
        self->made += self->steps[i].kind < TYPE;
    }
    return 0;
}

static int
read_exports(Unchanged *self, PyObject *exports)
{
    self->exports = PyMem_Calloc((size_t)PyTuple_GET_SIZE(exports) + 1, sizeof(Py_ssize_t));
    for (; self->exports != NULL && self->exported < PyTuple_GET_SIZE(exports); self->exported++) {
        Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(exports, self->exported));
        if (number < 0 || number >= self->inputs + self->made) {
            PyErr_Format(PyExc_ValueError, "no register: %R", PyTuple_GET_ITEM(exports, self->exported));
            return -1;
        }
        self->exports[self->exported] = number;
    }
    return self->exports == NULL ? -1 : 0;
}

static PyObject *
unchanged_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"steps", "inputs", "exports", NULL};
    PyObject *steps, *exports;
    Py_ssize_t inputs;
    PyTypeObject *tuple = &PyTuple_Type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nO!", names, tuple, &steps, &inputs, tuple, &exports))
        return NULL;
    Unchanged *self = (Unchanged *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = unchanged_vectorcall;
    self->inputs = inputs;
    if (read_steps(self, steps) == 0 && read_exports(self, exports) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static int
unchanged_traverse(Unchanged *self, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->steps[i].object);
    for (int i = 0; i < ENTRIES; i++)
        Py_VISIT(self->entries[i]);
    return 0;
}

static int
unchanged_clear(Unchanged *self)
{
    for (int i = ENTRIES - 1; i >= 0; i--)
        Py_CLEAR(self->entries[i]);
    return 0;
}

static void
unchanged_dealloc(Unchanged *self)
{
    PyObject_GC_UnTrack(self);
    unchanged_clear(self);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_XDECREF(self->steps[i].object);
    PyMem_Free(self->steps);
    PyMem_Free(self->exports);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int
noted_traverse(Noted *self, visitproc visit, void *arg)
{
    Py_VISIT(self->kept);
    return 0;
}

static void
noted_dealloc(Noted *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->kept);
    PyMem_Free(self->records);
    PyMem_Free(self->keys);
    PyMem_Free(self->record_of);
    PyMem_Free(self->addresses);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef unchanged_methods[] = {
    {"note", (PyCFunction)(void (*)(void))unchanged_note, METH_FASTCALL, PyDoc_STR("What the program sees, or None.")},
    {"settle", (PyCFunction)unchanged_settle, METH_O, PyDoc_STR("What was noted counts from now on.")},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject noted_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.guards._unchanged.Noted",
    .tp_basicsize = sizeof(Noted),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)noted_dealloc,
    .tp_traverse = (traverseproc)noted_traverse,
};

static PyTypeObject unchanged_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "minicompile.guards._unchanged.Unchanged",
    .tp_doc = PyDoc_STR("Unchanged(steps, inputs, exports): whether what was read is the same; see unchanged.c."),
    .tp_basicsize = sizeof(Unchanged),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = unchanged_new,
    .tp_dealloc = (destructor)unchanged_dealloc,
    .tp_traverse = (traverseproc)unchanged_traverse,
    .tp_clear = (inquiry)unchanged_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Unchanged, vectorcall),
    .tp_methods = unchanged_methods,
};

static struct PyModuleDef unchanged_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_unchanged",
    .m_doc = PyDoc_STR("Whether what a check has read is still the same; see unchanged.c."),
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__unchanged(void)
{
    dict_name = PyUnicode_InternFromString("__dict__");
    reader_name = PyUnicode_InternFromString("__getattribute__");
    PyObject *module = PyModule_Create(&unchanged_module);
    if (module == NULL || dict_name == NULL || reader_name == NULL || PyType_Ready(&noted_type) < 0 ||
        PyModule_AddType(module, &unchanged_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}

#else
PyMODINIT_FUNC
PyInit__unchanged(void)
{
    PyErr_SetString(PyExc_ImportError, "the dicts of this Python have no versions that can be relied on");
    return NULL;
}
#endif
