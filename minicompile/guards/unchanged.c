/* minicompile.guards._unchanged: whether what a check has read is still what it was, without reading it again.
 *
 * In:   Unchanged(steps, inputs, exports): a program over registers, of which the first `inputs` are the arguments of a
 *       call.  A step is a tuple; the first kinds make a new register:
 *           ("object", o)            o
 *           ("attributes", r)        r.__dict__, and that dict is to stay as it is
 *           ("item", r, key)         r[key]
 *           ("attribute", r, name)   getattr(r, name), of a class
 *           ("member", r, name)      r.__globals__ or r.__builtins__, of a function; a property's r.fget or r.fset
 *           ("default", r, index)    r.__defaults__[index], of a function
 *           ("cell", r, index)       r.__closure__[index].cell_contents, of a function
 *       and the others say what is to stay as it is:
 *           ("type", r)              the type of r
 *           ("contents", r)          what the dict or tuple r holds
 *           ("empty", r)             a dict's being empty; its subclasses too, whose order a version does not tell
 *           ("code", r)              the code of the function r
 *           ("class", r)             the attributes of the class r, its bases' included
 * Out:  unchanged(*inputs): a tuple of the registers `exports` if all that was settled for them holds, else None.
 *       note(*inputs): runs the program and returns what it saw; None if that cannot be watched.  No user code runs.
 *       settle(noted): from now on that counts.
 *
 * A dict has a version, which is another one after each change and is never used twice (PEP 509), and so has a class
 * (tp_version_tag).  If the version of every dict on the way from an argument to a value is the same, so is the value:
 * a few hundred comparisons of numbers stand for thousands of lines of Python.  torch's Dynamo does the same with
 * dicts' tags (torch/csrc/dynamo/guards.cpp).
 *
 * Nothing of the user's is kept alive.  Objects are remembered by address, but an address alone never decides: what
 * hangs on an argument is reached through dicts whose versions agree, and so is alive.  (An argument's address may have
 * become another object's; that has no dict of the same version.)
 *
 * The caller notes first, then checks, then settles: what another thread changes in between has another version.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>

/* Since 3.13 an attribute that is stored in the object itself, beside its dict, leaves the dict's version as it is (and
 * 3.13.0 tells no watcher of the dict either); since 3.14 there is no version. */
#if PY_VERSION_HEX < 0x030D0000

enum { ENTRIES = 32, FRUITLESS = 64 }; /* sets of arguments remembered; changes in a row after which nothing more is */

typedef enum {
    OBJECT, ATTRIBUTES, ITEM, ATTRIBUTE, MEMBER, DEFAULT, CELL, /* make a register */
    TYPE, CONTENTS, EMPTY, CODE, CLASS, KINDS
} Kind;

static const char *const kind_names[KINDS] = {
    "object", "attributes", "item", "attribute", "member", "default", "cell",
    "type", "contents", "empty", "code", "class",
};

typedef struct {
    Kind kind;
    Py_ssize_t source;
    PyObject *object; /* key, name or index; NULL where there is none */
} Step;

typedef enum { OWN_DICT, DICT, IS_EMPTY, HAS_TYPE, HAS_CODE, HAS_DEFAULT, HAS_IN_CELL, HAS_TAG } Fact;

typedef struct {
    Fact fact;
    PyObject *at, *expected; /* borrowed; what else has no version is in `kept` */
    uint64_t version; /* or an index */
} Record;

typedef struct {
    PyObject_HEAD
    Py_ssize_t inputs, count, exported;
    PyObject **addresses;  /* borrowed: the arguments, then the exports */
    Record *records;
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

static PyObject *
default_of(PyObject *function, Py_ssize_t index)
{
    PyObject *defaults = PyFunction_GET_DEFAULTS(function);
    int there = defaults != NULL && index >= 0 && index < PyTuple_GET_SIZE(defaults);
    return there ? PyTuple_GET_ITEM(defaults, index) : NULL;
}

static int
holds(const Record *record)
{
    PyObject *at = record->at, **dict;
    switch (record->fact) {
    case OWN_DICT:
        dict = _PyObject_GetDictPtr(at);
        return dict != NULL && *dict == record->expected && version_of(*dict) == record->version;
    case DICT:
        return version_of(at) == record->version;
    case IS_EMPTY:
        return PyDict_GET_SIZE(at) == 0;
    case HAS_TYPE:
        return is_held((PyObject *)Py_TYPE(at), record->expected);
    case HAS_CODE:
        return PyFunction_GET_CODE(at) == record->expected;
    case HAS_DEFAULT:
        return is_held(default_of(at, (Py_ssize_t)record->version), record->expected);
    case HAS_IN_CELL:
        return is_held(PyCell_GET(at), record->expected);
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
all_hold(const Noted *noted)
{
    for (Py_ssize_t i = 0; i < noted->count; i++)
        if (!holds(&noted->records[i]))
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
    PyObject *result = all_hold(noted) ? values_of(noted) : Py_NewRef(Py_None);
    if (result != Py_None)
        self->fruitless = 0;
    Py_DECREF(noted);
    return result;
}

/* ---- noting ---- */

static void
add(Noted *noted, Fact fact, PyObject *at, PyObject *expected, uint64_t version)
{
    noted->records[noted->count++] = (Record){fact, at, expected, version};
}

static void
add_dict(Noted *noted, PyObject *owner, PyObject *dict)
{
    add(noted, owner == NULL ? DICT : OWN_DICT, owner == NULL ? dict : owner, dict, version_of(dict));
}

static int
is_plain(PyObject *value)
{
    return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyUnicode_CheckExact(value) || PyCode_Check(value);
}

/* A place that has no version still holds `value`, number `index` there: it is kept, or a weak reference to it.
 * 1: noted, 0: it cannot be watched, -1: an exception. So are the answers of all that follows. */
static int
add_held(Noted *noted, Fact fact, PyObject *at, PyObject *value, Py_ssize_t index)
{
    PyObject *held = is_plain(value) ? Py_NewRef(value) : PyWeakref_NewRef(value, NULL);
    if (held == NULL) {
        PyErr_Clear();
        return 0;
    }
    add(noted, fact, at, held, (uint64_t)index);
    int failed = PyList_Append(noted->kept, held);
    Py_DECREF(held);
    return failed < 0 ? -1 : 1;
}

static int
note_attributes(Noted *noted, PyObject *owner, PyObject **found)
{
    if (PyType_Check(owner)) { /* a view of the class's own names; ("class", r) says that they stay */
        *found = PyObject_GetAttr(owner, dict_name);
        return *found == NULL ? -1 : 1;
    }
    PyObject **place = _PyObject_GetDictPtr(owner);
    if (place == NULL || *place == NULL || !PyDict_CheckExact(*place))
        return 0;
    *found = Py_NewRef(*place);
    add_dict(noted, owner, *found);
    return 1;
}

static int
note_item(PyObject *container, PyObject *key, PyObject **found)
{
    Py_ssize_t index;
    if (PyDict_CheckExact(container))
        *found = Py_XNewRef(PyDict_GetItemWithError(container, key));
    else if (Py_IS_TYPE(container, &PyDictProxy_Type)) /* of a class */
        *found = PyObject_GetItem(container, key);
    else if (PyTuple_CheckExact(container) && PyLong_CheckExact(key)) {
        index = PyLong_AsSsize_t(key);
        index += index < 0 ? PyTuple_GET_SIZE(container) : 0;
        if (index >= 0 && index < PyTuple_GET_SIZE(container))
            *found = Py_NewRef(PyTuple_GET_ITEM(container, index));
    }
    return PyErr_Occurred() ? -1 : *found != NULL;
}

/* What getattr() would give; not where a descriptor or the class's own class has a say. */
static int
note_attribute(PyObject *owner, PyObject *name, PyObject **found)
{
    PyTypeObject *metaclass = Py_TYPE(owner);
    PyObject *meta = _PyType_Lookup(metaclass, name);
    if (!PyType_Check(owner) || _PyType_Lookup(metaclass, reader_name) != _PyType_Lookup(&PyType_Type, reader_name) ||
        (meta != NULL && Py_TYPE(meta)->tp_descr_set != NULL))
        return 0;
    PyObject *value = _PyType_Lookup((PyTypeObject *)owner, name);
    if (value == NULL || (Py_TYPE(value)->tp_descr_get != NULL && !PyFunction_Check(value) &&
                          !Py_IS_TYPE(value, &PyProperty_Type)))
        return 0;
    *found = Py_NewRef(value);
    return 1;
}

static int
note_member(PyObject *owner, PyObject *name, PyObject **found)
{
    if (!PyFunction_Check(owner) && !Py_IS_TYPE(owner, &PyProperty_Type))
        return 0;
    *found = PyObject_GetAttr(owner, name);
    return *found == NULL ? -1 : 1;
}

static int
note_default(Noted *noted, PyObject *function, PyObject *number, PyObject **found)
{
    PyObject *value = PyFunction_Check(function) ? default_of(function, PyLong_AsSsize_t(number)) : NULL;
    *found = Py_XNewRef(value);
    return value == NULL ? 0 : add_held(noted, HAS_DEFAULT, function, value, PyLong_AsSsize_t(number));
}

static int
note_cell(Noted *noted, PyObject *function, PyObject *number, PyObject **found)
{
    PyObject *closure = PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : NULL;
    Py_ssize_t index = PyLong_AsSsize_t(number);
    int there = closure != NULL && index >= 0 && index < PyTuple_GET_SIZE(closure);
    PyObject *cell = there ? PyTuple_GET_ITEM(closure, index) : NULL;
    *found = cell == NULL ? NULL : Py_XNewRef(PyCell_GET(cell));
    return *found == NULL ? 0 : add_held(noted, HAS_IN_CELL, cell, *found, 0);
}

/* A step that makes a register: `*found` is a new reference to its value. */
static int
note_read(Noted *noted, const Step *step, PyObject *value, PyObject **found)
{
    switch (step->kind) {
    case ATTRIBUTES:
        return note_attributes(noted, value, found);
    case ITEM:
        return note_item(value, step->object, found);
    case ATTRIBUTE:
        return note_attribute(value, step->object, found);
    case MEMBER:
        return note_member(value, step->object, found);
    case DEFAULT:
        return note_default(noted, value, step->object, found);
    case CELL:
        return note_cell(noted, value, step->object, found);
    default: /* OBJECT */
        *found = Py_NewRef(step->object);
        return 1;
    }
}

static int
note_class(Noted *noted, PyObject *type)
{
    if (!PyType_Check(type) || tag_of((PyTypeObject *)type) == 0)
        return 0;
    add(noted, HAS_TAG, type, NULL, ((PyTypeObject *)type)->tp_version_tag);
    return 1;
}

/* A step that says what is to stay. */
static int
note_fact(Noted *noted, Kind kind, PyObject *value)
{
    switch (kind) {
    case TYPE:
        return add_held(noted, HAS_TYPE, value, (PyObject *)Py_TYPE(value), 0);
    case CONTENTS:
        if (PyDict_CheckExact(value))
            add_dict(noted, NULL, value);
        return PyDict_CheckExact(value) || PyTuple_CheckExact(value);
    case EMPTY:
        if (!PyDict_Check(value))
            return 0;
        add(noted, IS_EMPTY, value, NULL, 0);
        return 1;
    case CODE:
        return PyFunction_Check(value) ? add_held(noted, HAS_CODE, value, PyFunction_GET_CODE(value), 0) : 0;
    default: /* CLASS */
        return note_class(noted, value);
    }
}

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
        if (step->kind < TYPE)
            answer = note_read(noted, step, value, &made[count++]);
        else
            answer = note_fact(noted, step->kind, value);
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
    noted->records = PyMem_Calloc((size_t)self->count + 1, sizeof(Record)); /* a step leaves one at most */
    noted->addresses = PyMem_Calloc((size_t)(self->inputs + self->exported) + 1, sizeof(PyObject *));
    noted->kept = PyList_New(0);
    if (noted->records != NULL && noted->addresses != NULL && noted->kept != NULL)
        return noted;
    Py_DECREF(noted);
    return (Noted *)PyErr_NoMemory();
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
    if (answer == 1)
        return (PyObject *)noted;
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
    int has_object = step->kind != ATTRIBUTES && step->kind < TYPE;
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
