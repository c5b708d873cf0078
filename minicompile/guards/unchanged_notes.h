/* The steps of an `Unchanged` (unchanged.c), each run once to note what it sees.
 *
 * In:   a step and the value of the register that it starts from.
 * Out:  a record in `noted` for what has to stay, and the value of the register that the step makes.  Every function
 *       answers 1: noted, 0: it cannot be watched, -1: an exception.
 *
 * A place that has no version (a slot, a cell, a default) is compared with the object that was there, and so is the
 * value of a key where a dict has another version.  It must not be another object at the address of a dead one, so that
 * object is held: constants themselves, and instances that know no weak references but of no container; all else weakly.
 */
static void
add(Noted *noted, Fact fact, PyObject *at, PyObject *expected, uint64_t version)
{
    noted->records[noted->count++] = (Record){fact, 0, at, expected, version};
}

static void
add_dict(Noted *noted, PyObject *owner, PyObject *dict)
{
    add(noted, owner == NULL ? DICT : OWN_DICT, owner == NULL ? dict : owner, dict, version_of(dict));
}

/* Refers to nothing, or to code and constants alone. */
static int
is_constant(PyObject *value)
{
    if (!PyTuple_CheckExact(value))
        return PyCode_Check(value) || !(PyType_IS_GC(Py_TYPE(value)) || PyType_SUPPORTS_WEAKREFS(Py_TYPE(value)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++)
        if (PyTuple_CheckExact(PyTuple_GET_ITEM(value, i)) || !is_constant(PyTuple_GET_ITEM(value, i)))
            return 0;
    return 1;
}

/* Of a class of Python's own with nothing but slots. */
static int
is_small_instance(PyObject *value)
{
    int is_container = PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) || PyAnySet_Check(value);
    return PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) && !is_container && !PyWeakref_Check(value);
}

/* `*held`: the value or a weak reference to it, which lives as long as `noted`. */
static int
hold(Noted *noted, PyObject *value, PyObject **held)
{
    int is_kept = is_constant(value) || (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(value)) && is_small_instance(value));
    *held = is_kept ? Py_NewRef(value) : PyWeakref_NewRef(value, NULL);
    if (*held == NULL) {
        PyErr_Clear();
        return 0;
    }
    int failed = PyList_Append(noted->kept, *held);
    Py_DECREF(*held);
    return failed < 0 ? -1 : 1;
}

/* A place that has no version, number `index` at `at`, still holds `value`. */
static int
add_held(Noted *noted, Fact fact, PyObject *at, PyObject *value, Py_ssize_t index)
{
    PyObject *held;
    int answer = hold(noted, value, &held);
    if (answer == 1)
        add(noted, fact, at, held, (uint64_t)index);
    return answer;
}

/* The dict of a record has this value under the key; NULL: no such key. */
static int
add_key(Noted *noted, Py_ssize_t record, PyObject *key, PyObject *value)
{
    if (record < 0 || noted->records[record].keys == ALL_OF_IT) /* a tuple, or a class's names */
        return 1;
    PyObject *expected = value;
    int is_dict = value != NULL && PyDict_CheckExact(value);
    int answer = value == NULL || is_dict ? 1 : hold(noted, value, &expected);
    if (answer == 0)
        noted->records[record].keys = ALL_OF_IT;
    if (answer == 1) {
        noted->keys[++noted->key_count] = (Key){key, expected, noted->records[record].keys, is_dict};
        noted->records[record].keys = noted->key_count;
    }
    return answer < 0 ? -1 : 1;
}

static int
note_attributes(Noted *noted, PyObject *owner, PyObject **found)
{
    if (PyType_Check(owner)) { /* a view of the class's own names; ("class", r) says that they stay */
        *found = PyObject_GetAttr(owner, dict_name);
        return *found == NULL ? -1 : 1;
    }
    PyObject *reader = _PyType_Lookup(Py_TYPE(owner), dict_name), **place = _PyObject_GetDictPtr(owner);
    int is_own = reader != NULL && (Py_IS_TYPE(reader, &PyGetSetDescr_Type) || Py_IS_TYPE(reader, &PyMemberDescr_Type));
    if (!is_own || place == NULL || *place == NULL || !PyDict_CheckExact(*place))
        return 0;
    *found = Py_NewRef(*place);
    add_dict(noted, owner, *found);
    return 1;
}

static int
note_item(Noted *noted, const Step *step, PyObject *container, PyObject **found)
{
    PyObject *key = step->object;
    Py_ssize_t index;
    if (PyDict_CheckExact(container))
        *found = Py_XNewRef(PyDict_GetItemWithError(container, key));
    else if (Py_IS_TYPE(container, &PyDictProxy_Type)) /* of a class */
        *found = PyObject_GetItem(container, key);
    else if (PyTuple_CheckExact(container) && PyLong_CheckExact(key)) {
        index = PyLong_AsSsize_t(key);
        index += index < 0 ? PyTuple_GET_SIZE(container) : 0;
        *found = Py_XNewRef(item_at(container, index));
    }
    if (PyErr_Occurred())
        return -1;
    return *found == NULL ? 0 : add_key(noted, noted->record_of[step->source], key, *found);
}

/* __module__, which has the class's version, or __name__ or __qualname__, which have none. */
static int
note_name_of_class(Noted *noted, PyObject *owner, PyObject *name, PyObject **found)
{
    Py_ssize_t offset = 0;
    if (PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0)
        offset = offsetof(PyHeapTypeObject, ht_qualname);
    else if (PyUnicode_CompareWithASCIIString(name, "__name__") == 0)
        offset = offsetof(PyHeapTypeObject, ht_name);
    else if (PyUnicode_CompareWithASCIIString(name, "__module__") != 0)
        return 0;
    *found = PyObject_GetAttr(owner, name);
    if (*found == NULL)
        return -1;
    if (offset == 0 || !PyType_HasFeature((PyTypeObject *)owner, Py_TPFLAGS_HEAPTYPE)) /* those of C are for good */
        return 1;
    return add_held(noted, HAS_IN_SLOT, owner, *found, offset);
}

/* What getattr() of a class would give; not where a descriptor or the class's own class has a say. */
static int
note_attribute(Noted *noted, PyObject *owner, PyObject *name, PyObject **found)
{
    PyTypeObject *metaclass = Py_TYPE(owner);
    PyObject *meta = _PyType_Lookup(metaclass, name);
    if (!PyType_Check(owner) || _PyType_Lookup(metaclass, reader_name) != _PyType_Lookup(&PyType_Type, reader_name))
        return 0;
    if (meta != NULL && meta == _PyType_Lookup(&PyType_Type, name) && Py_IS_TYPE(meta, &PyGetSetDescr_Type))
        return note_name_of_class(noted, owner, name, found);
    if (meta != NULL && Py_TYPE(meta)->tp_descr_set != NULL)
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
    PyObject *value = PyFunction_Check(function) ? in_cell_of(function, PyLong_AsSsize_t(number)) : NULL;
    *found = Py_XNewRef(value);
    return value == NULL ? 0 : add_held(noted, HAS_IN_CELL, function, value, PyLong_AsSsize_t(number));
}

static int
note_class(Noted *noted, PyObject *type)
{
    if (!PyType_Check(type) || tag_of((PyTypeObject *)type) == 0)
        return 0;
    add(noted, HAS_TAG, type, NULL, ((PyTypeObject *)type)->tp_version_tag);
    return 1;
}

/* What a member of a class's `__slots__` holds. The class is not to change either. */
static int
note_slot(Noted *noted, PyObject *owner, PyObject *name, PyObject **found)
{
    PyTypeObject *type = Py_TYPE(owner);
    PyObject *member = _PyType_Lookup(type, name);
    if (member == NULL || !Py_IS_TYPE(member, &PyMemberDescr_Type) ||
        _PyType_Lookup(type, reader_name) != _PyType_Lookup(&PyBaseObject_Type, reader_name))
        return 0;
    const PyMemberDef *definition = ((PyMemberDescrObject *)member)->d_member;
    if (definition->type != T_OBJECT_EX || note_class(noted, (PyObject *)type) != 1)
        return 0;
    *found = Py_XNewRef(in_slot_of(owner, definition->offset));
    return *found == NULL ? 0 : add_held(noted, HAS_IN_SLOT, owner, *found, definition->offset);
}

/* A step that makes a register: `*found` is a new reference to its value. */
static int
note_read(Noted *noted, const Step *step, PyObject *value, PyObject **found)
{
    switch (step->kind) {
    case ATTRIBUTES:
        return note_attributes(noted, value, found);
    case ITEM:
        return note_item(noted, step, value, found);
    case ATTRIBUTE:
        return note_attribute(noted, value, step->object, found);
    case MEMBER:
        return note_member(value, step->object, found);
    case DEFAULT:
        return note_default(noted, value, step->object, found);
    case CELL:
        return note_cell(noted, value, step->object, found);
    case SLOT:
        return note_slot(noted, value, step->object, found);
    default: /* OBJECT */
        *found = Py_NewRef(step->object);
        return 1;
    }
}

/* What a dict holds, or a tuple, which cannot change. */
static int
note_contents(Noted *noted, Py_ssize_t number, PyObject *value)
{
    if (PyDict_CheckExact(value) && noted->record_of[number] < 0) {
        add_dict(noted, NULL, value);
        noted->record_of[number] = noted->count - 1;
    }
    return PyDict_CheckExact(value) || PyTuple_CheckExact(value);
}

static int
note_key(Noted *noted, const Step *step, PyObject *dict)
{
    if (!PyDict_CheckExact(dict)) /* a tuple, or a class's names */
        return 1;
    PyObject *value = PyDict_GetItemWithError(dict, step->object);
    return PyErr_Occurred() ? -1 : add_key(noted, noted->record_of[step->source], step->object, value);
}

/* A step that says what is to stay. */
static int
note_fact(Noted *noted, const Step *step, PyObject *value)
{
    Py_ssize_t record = noted->record_of[step->source];
    switch (step->kind) {
    case TYPE:
        return add_held(noted, HAS_TYPE, value, (PyObject *)Py_TYPE(value), 0);
    case CONTENTS:
        return note_contents(noted, step->source, value);
    case KEY:
        return note_key(noted, step, value);
    case WHOLE:
        if (record >= 0)
            noted->records[record].keys = ALL_OF_IT;
        return 1;
    case EMPTY:
        if (PyDict_Check(value))
            add(noted, IS_EMPTY, value, NULL, 0);
        return PyDict_Check(value) || PyTuple_CheckExact(value);
    case CODE:
        return PyFunction_Check(value) ? add_held(noted, HAS_CODE, value, PyFunction_GET_CODE(value), 0) : 0;
    default: /* CLASS */
        return note_class(noted, value);
    }
}

