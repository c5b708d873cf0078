/* minicompile.frontend._eval_frame: the PEP 523 hook.
 *
 * In:   run(ctx, fn, args, kwargs) calls fn with the hook on in this thread.  When a frame of a Python function is about
 *       to start there, the hook looks for the dispatcher of (code, ctx), asking the callback for it the first time.
 * Out:  the dispatcher, an ordinary callable, is called with the function and the frame's raw argument slots; what it
 *       returns is what the frame returns.  If it returns EAGER, the untouched frame runs as ever.
 *
 * Nothing of the frame is rebuilt: at entry the first slots of localsplus are the arguments, not yet boxed into cells,
 * and the function has the closure.  Generators, coroutines and class bodies are left alone.
 *
 * Who keeps what alive.  The garbage collector doesn't see what a code object's extra slot refers to, so a cycle
 * code -> dispatcher -> ctx -> function -> code would never be collected.  The slot therefore holds weak references
 * only, and the dispatchers live in ctx.__dict__["_hook_dispatchers"]: when the last user of a ctx is gone, so is
 * all that was compiled for it.  Where a ctx has no __dict__ or can't be weakly referenced, the slot holds it strongly until
 * forget() is called.
 *
 * Beside other evaluators.  The evaluator that was found is put back when the last run() ends.  Frames of threads that
 * are not inside a run() go to it.  While some other evaluator is on top (torch.compile, called inside ours), frames
 * that it hands down to us get no second treatment: one tracer never works inside the other.
 */
#include "cpython_frames.h"
#include <pthread.h>

typedef struct {
    PyObject *referent; /* the address of what is meant; strong unless `weak` */
    PyObject *weak;     /* a weak reference to it, or NULL */
} Reference;

typedef struct {
    Reference ctx;
    Reference dispatcher; /* None: frames of this code are left alone under ctx */
} Entry;

typedef struct { /* what a code object's extra slot points to, from the first question about it until the code dies */
    int skip;
    int count;
    Entry *entries;
} Extra;

enum {
    MOST_ARGUMENTS = 255,   /* frames with more are left alone: their slots are copied onto the C stack */
    STACK_RESERVE = 1 << 20 /* bytes of C stack that are kept for what a frame calls */
};

static Py_ssize_t extra_index = -1;
static PyObject *callback, *eager, *dispatchers_name;

static _Thread_local PyObject *current_ctx;    /* NULL: the hook is off.  Kept alive by run() */
static _Thread_local Frame *forwarded;         /* the frame that this thread has handed to the evaluator beneath */
static _Thread_local struct { char *end, *short_below; } stack; /* this thread's C stack, once asked for */
static _Thread_local Py_ssize_t runs_here;     /* calls of run() in progress: in this thread, */
static Py_ssize_t runs;                        /* and in all of them */
static _PyFrameEvalFunction evaluator_beneath; /* what was found when the hook was installed */

/* ---- references ---- */

static int
is_alive(const Reference *reference)
{
    return reference->weak == NULL || refers_to(reference->weak, reference->referent);
}

static void
release(Reference reference)
{
    Py_DECREF(reference.weak ? reference.weak : reference.referent);
}

/* A weak reference where the object allows it and `weakly` is set, else a strong one. */
static Reference
refer(PyObject *object, int weakly)
{
    Reference reference = {object, weakly ? PyWeakref_NewRef(object, NULL) : NULL};
    if (reference.weak == NULL) {
        PyErr_Clear();
        Py_INCREF(object);
    }
    return reference;
}

/* ---- entries: (code, ctx) -> dispatcher ---- */

static void
release_entries(Entry *entries, int count)
{
    for (int i = 0; i < count; i++) {
        release(entries[i].dispatcher);
        release(entries[i].ctx);
    }
    PyMem_Free(entries);
}

static void
free_extra(void *memory)
{
    Extra *extra = memory;
    if (extra == NULL) /* somebody else has stored something on that code, under an index of their own */
        return;
    release_entries(extra->entries, extra->count);
    PyMem_Free(extra);
}

/* NULL, without an exception, where nothing was ever stored. */
static Extra *
find_extra(PyObject *code)
{
    void *extra = NULL;
    return PyUnstable_Code_GetExtra(code, extra_index, &extra) < 0 ? NULL : extra;
}

static Extra *
make_extra(PyObject *code)
{
    Extra *extra = find_extra(code);
    if (extra != NULL)
        return extra;
    extra = PyMem_Calloc(1, sizeof(Extra));
    if (extra == NULL) {
        PyErr_NoMemory();
    } else if (PyUnstable_Code_SetExtra(code, extra_index, extra) < 0) {
        PyMem_Free(extra);
        extra = NULL;
    }
    return extra;
}

/* The dispatcher for ctx (None: leave such frames alone) as a new reference; NULL when the callback must be asked. */
static PyObject *
find_dispatcher(Extra *extra, PyObject *ctx)
{
    for (int i = 0; i < extra->count; i++) {
        Entry entry = extra->entries[i];
        if (entry.ctx.referent != ctx || !is_alive(&entry.ctx))
            continue;
        if (!is_alive(&entry.dispatcher))
            return NULL;
        extra->entries[i] = extra->entries[0]; /* the ctx of the last call is the likeliest of the next */
        extra->entries[0] = entry;
        return Py_NewRef(entry.dispatcher.referent);
    }
    return NULL;
}

/* Drop the entries of ctx (of every ctx: NULL) and those whose ctx or dispatcher has died.  The destructors that this
   runs may come back here, so the slot is put in order first. */
static int
drop_entries(Extra *extra, PyObject *ctx)
{
    Entry *dropped = PyMem_Calloc((size_t)extra->count + 1, sizeof(Entry));
    if (dropped == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int kept = 0, drops = 0;
    for (int i = 0; i < extra->count; i++) {
        Entry entry = extra->entries[i];
        int keep = ctx != NULL && entry.ctx.referent != ctx && is_alive(&entry.ctx) && is_alive(&entry.dispatcher);
        *(keep ? &extra->entries[kept++] : &dropped[drops++]) = entry;
    }
    extra->count = kept;
    release_entries(dropped, drops);
    return 0;
}

/* ctx.__dict__["_hook_dispatchers"], made if absent; NULL, without an exception, where ctx can't own anything. */
static PyObject *
dispatchers_of(PyObject *ctx)
{
    PyObject *attributes = PyObject_GenericGetDict(ctx, NULL), *owned = NULL;
    if (attributes != NULL && PyType_SUPPORTS_WEAKREFS(Py_TYPE(ctx))) {
        owned = Py_XNewRef(PyDict_GetItemWithError(attributes, dispatchers_name));
        if (owned == NULL && !PyErr_Occurred() && (owned = PyDict_New()) != NULL &&
            PyDict_SetItem(attributes, dispatchers_name, owned) < 0)
            Py_CLEAR(owned);
    }
    Py_XDECREF(attributes);
    PyErr_Clear();
    return owned;
}

/* Let ctx own the dispatcher, under the code's address: codes compare by content, and two equal ones may differ here. */
static int
give_to_ctx(PyObject *ctx, PyObject *code, PyObject *dispatcher)
{
    PyObject *owned = dispatchers_of(ctx), *key = owned ? PyLong_FromVoidPtr(code) : NULL;
    int given = key != NULL && PyDict_Check(owned) && PyDict_SetItem(owned, key, dispatcher) == 0;
    Py_XDECREF(key);
    Py_XDECREF(owned);
    PyErr_Clear();
    return given;
}

static int
store_dispatcher(PyObject *code, Extra *extra, PyObject *ctx, PyObject *dispatcher)
{
    int weakly = dispatcher != Py_None && give_to_ctx(ctx, code, dispatcher);
    if (drop_entries(extra, ctx) < 0)
        return -1;
    Entry entry = {refer(ctx, PyType_SUPPORTS_WEAKREFS(Py_TYPE(ctx))), refer(dispatcher, weakly)};
    Entry *entries = PyMem_Realloc(extra->entries, ((size_t)extra->count + 1) * sizeof(Entry));
    if (entries == NULL) {
        release(entry.ctx);
        release(entry.dispatcher);
        PyErr_NoMemory();
        return -1;
    }
    extra->entries = entries;
    extra->entries[extra->count++] = entry;
    return 0;
}

/* ---- the hook ---- */

/* The dispatcher for a frame of `function` under ctx, asking the callback with the hook off.  None or a callable, as a
   new reference; NULL with an exception. */
static PyObject *
dispatcher_for(PyObject *code, PyObject *function, PyObject *ctx)
{
    Extra *extra = make_extra(code);
    if (extra == NULL)
        return NULL;
    PyObject *dispatcher = extra->skip ? Py_NewRef(Py_None) : find_dispatcher(extra, ctx);
    if (dispatcher != NULL || callback == NULL)
        return dispatcher ? dispatcher : Py_NewRef(Py_None);
    PyObject *asked = Py_NewRef(callback);
    current_ctx = NULL;
    dispatcher = PyObject_CallFunctionObjArgs(asked, ctx, function, NULL);
    current_ctx = ctx;
    Py_DECREF(asked);
    if (dispatcher != NULL && !extra->skip && store_dispatcher(code, extra, ctx, dispatcher) < 0)
        Py_CLEAR(dispatcher);
    return dispatcher;
}

/* Hand a frame to the evaluator that the hook was installed over.  That one may itself have been installed over us and
   hand the same frame down again: then it gets the default evaluator. */
static PyObject *
forward(PyThreadState *thread, Frame *frame, int throwflag)
{
    _PyFrameEvalFunction beneath = evaluator_beneath;
    if (beneath == NULL || frame == forwarded)
        return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    Frame *outer = forwarded;
    forwarded = frame;
    PyObject *result = beneath(thread, frame, throwflag);
    forwarded = outer;
    return result;
}

/* How many slots hold arguments, or -1 for a frame that the hook leaves alone. */
static int
argument_slots(PyCodeObject *code)
{
    const int left_alone = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    if ((code->co_flags & left_alone) || !(code->co_flags & CO_OPTIMIZED))
        return -1;
    int slots = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                !!(code->co_flags & CO_VARKEYWORDS);
    return slots <= MOST_ARGUMENTS ? slots : -1;
}

/* Any evaluator but the default makes each Python call a C call, so a recursion that needs no C stack in eager (3.11 and
   later, sys.setrecursionlimit) could overflow it here.  That must be an exception, not a crash. */
static void
find_stack(void)
{
    stack.end = stack.short_below = (char *)1; /* unknown: never short */
#ifdef __linux__
    pthread_attr_t attributes;
    void *end;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    if (pthread_attr_getstack(&attributes, &end, &size) == 0) {
        stack.end = end;
        stack.short_below = stack.end + (size / 4 < STACK_RESERVE ? size / 4 : STACK_RESERVE);
    }
    pthread_attr_destroy(&attributes);
#endif
}

static int
stack_is_short(void)
{
    char here;
    if (stack.end == NULL)
        find_stack();
    return &here < stack.short_below && &here >= stack.end; /* not below its end: a coroutine library's stack */
}

Py_NO_INLINE static PyObject * /* its array must not be part of hook()'s C frame, of which there is one for each call */
call_dispatcher(PyObject *dispatcher, Frame *frame, int slots)
{
    PyObject *arguments[MOST_ARGUMENTS + 2]; /* [0] is lent to the callee, as vectorcall allows */
    arguments[1] = frame_function(frame);
    for (int i = 0; i < slots; i++)
        arguments[i + 2] = frame->localsplus[i];
    PyObject *ctx = current_ctx;
    current_ctx = NULL;
    PyObject *result = PyObject_Vectorcall(dispatcher, arguments + 1,
                                           (size_t)(slots + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    current_ctx = ctx;
    return result;
}

static PyObject *hook(PyThreadState *thread, Frame *frame, int throwflag);

static int
hook_is_on_top(PyThreadState *thread)
{
    return _PyInterpreterState_GetEvalFrameFunc(thread->interp) == hook;
}

static PyObject *
hook(PyThreadState *thread, Frame *frame, int throwflag)
{
    PyCodeObject *code = frame_code(frame);
    int slots = throwflag ? -1 : argument_slots(code);
    if (slots >= 0 && stack_is_short()) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
        discard_frame(thread, frame);
        return NULL;
    }
    if (current_ctx == NULL)
        return forward(thread, frame, throwflag);
    if (slots < 0 || !hook_is_on_top(thread))
        return _PyEval_EvalFrameDefault(thread, frame, throwflag);

    PyObject *dispatcher = dispatcher_for((PyObject *)code, frame_function(frame), current_ctx);
    PyObject *result = NULL;
    if (dispatcher == Py_None)
        result = Py_NewRef(eager);
    else if (dispatcher != NULL)
        result = call_dispatcher(dispatcher, frame, slots);
    Py_XDECREF(dispatcher);
    if (result != eager) {
        discard_frame(thread, frame);
        return result;
    }
    Py_DECREF(result);
    return _PyEval_EvalFrameDefault(thread, frame, 0);
}

/* ---- what Python sees ---- */

typedef struct { /* what a run() puts back when it ends */
    PyObject *ctx;
    _PyFrameEvalFunction found; /* the evaluator it was installed over, or NULL if it was on top already */
    _PyFrameEvalFunction beneath;
} Outer;

static Outer
begin_run(PyInterpreterState *interpreter, PyObject *ctx)
{
    _PyFrameEvalFunction top = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    Outer outer = {current_ctx, top == hook ? NULL : top, evaluator_beneath};
    if (outer.found != NULL) {
        evaluator_beneath = top == _PyEval_EvalFrameDefault ? NULL : top;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, hook);
    }
    runs++;
    runs_here++;
    current_ctx = ctx;
    return outer;
}

/* The evaluator that was found comes back when no other thread needs the hook; if one does, its own last run sees to
   it.  An evaluator that was put on top of the hook meanwhile, and left there, stays. */
static void
end_run(PyInterpreterState *interpreter, Outer outer)
{
    runs--;
    runs_here--;
    current_ctx = outer.ctx;
    int on_top = _PyInterpreterState_GetEvalFrameFunc(interpreter) == hook;
    int needed_elsewhere = runs != runs_here;
    if (outer.found != NULL && !needed_elsewhere) {
        if (on_top)
            _PyInterpreterState_SetEvalFrameFunc(interpreter, outer.found);
        evaluator_beneath = outer.beneath;
    } else if (runs == 0 && on_top) {
        _PyInterpreterState_SetEvalFrameFunc(interpreter,
                                             evaluator_beneath ? evaluator_beneath : _PyEval_EvalFrameDefault);
    }
}

static PyObject *
py_run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count < 3 || count > 4 || !PyTuple_Check(args[2]) || (count == 4 && args[3] != Py_None && !PyDict_Check(args[3])))
        return PyErr_Format(PyExc_TypeError, "run(ctx, fn, args: tuple, kwargs: dict | None = None)");
    PyObject *ctx = args[0] == Py_None ? NULL : args[0];
    PyObject *kwargs = count == 4 && args[3] != Py_None ? args[3] : NULL;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    Py_XINCREF(ctx);
    Outer outer = begin_run(interpreter, ctx);
    PyObject *result = PyObject_Call(args[1], args[2], kwargs);
    end_run(interpreter, outer);
    Py_XDECREF(ctx);
    return result;
}

static PyObject *
py_run_off(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    if (count < 1)
        return PyErr_Format(PyExc_TypeError, "run_off(fn, *args, **kwargs)");
    PyObject *ctx = current_ctx;
    current_ctx = NULL;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(count - 1), kwnames);
    current_ctx = ctx;
    return result;
}

static PyObject *
py_current(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef(current_ctx ? current_ctx : Py_None);
}

static PyObject *
py_set_callback(PyObject *Py_UNUSED(module), PyObject *function)
{
    if (function != Py_None && !PyCallable_Check(function))
        return PyErr_Format(PyExc_TypeError, "the callback must be callable or None, not %R", function);
    PyObject *before = callback;
    callback = function == Py_None ? NULL : Py_NewRef(function);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* Take the code's dispatcher out of what ctx owns; the slot has only a weak reference to it. */
static void
take_from_ctx(PyObject *ctx, PyObject *code)
{
    PyObject *owned = dispatchers_of(ctx), *key = owned ? PyLong_FromVoidPtr(code) : NULL;
    if (key != NULL && PyDict_Check(owned))
        (void)PyDict_DelItem(owned, key);
    PyErr_Clear();
    Py_XDECREF(key);
    Py_XDECREF(owned);
}

/* Drop what is stored for (code, ctx), or for every ctx: NULL; also what those ctxs own. */
static int
forget_entries(Extra *extra, PyObject *code, PyObject *ctx)
{
    for (int i = 0; i < extra->count; i++) {
        Reference owner = extra->entries[i].ctx;
        if ((ctx == NULL || owner.referent == ctx) && owner.weak != NULL && is_alive(&owner)) {
            Py_INCREF(owner.referent);
            take_from_ctx(owner.referent, code);
            Py_DECREF(owner.referent);
        }
    }
    return drop_entries(extra, ctx);
}

static int
is_code(PyObject *code)
{
    if (!PyCode_Check(code))
        PyErr_Format(PyExc_TypeError, "a code object is needed, not %R", code);
    return PyCode_Check(code);
}

static PyObject *
py_skip(PyObject *Py_UNUSED(module), PyObject *code)
{
    Extra *extra = is_code(code) ? make_extra(code) : NULL;
    if (extra == NULL)
        return NULL;
    extra->skip = 1;
    if (forget_entries(extra, code, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
py_forget(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || count > 2)
        return PyErr_Format(PyExc_TypeError, "forget(code, ctx=None)");
    if (!is_code(args[0]))
        return NULL;
    PyObject *ctx = count == 2 && args[1] != Py_None ? args[1] : NULL;
    Extra *extra = find_extra(args[0]);
    if (extra == NULL)
        Py_RETURN_NONE;
    if (ctx == NULL)
        extra->skip = 0;
    if (forget_entries(extra, args[0], ctx) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))py_run, METH_FASTCALL,
     PyDoc_STR("run(ctx, fn, args, kwargs=None): call fn with the hook on in this thread, under ctx")},
    {"run_off", (PyCFunction)(void (*)(void))py_run_off, METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("run_off(fn, *args, **kwargs): call fn with the hook off in this thread")},
    {"current", py_current, METH_NOARGS, PyDoc_STR("the ctx that this thread runs under, or None")},
    {"set_callback", py_set_callback, METH_O, PyDoc_STR("callback(ctx, function) -> dispatcher or None")},
    {"skip", py_skip, METH_O, PyDoc_STR("skip(code): leave frames of this code alone, under every ctx")},
    {"forget", (PyCFunction)(void (*)(void))py_forget, METH_FASTCALL,
     PyDoc_STR("forget(code, ctx=None): drop what is stored about this code, under ctx or under every ctx")},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef eval_frame_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_eval_frame",
    .m_doc = PyDoc_STR("The PEP 523 hook; see eval_frame.c."),
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__eval_frame(void)
{
    extra_index = PyUnstable_Eval_RequestCodeExtraIndex(free_extra);
    if (extra_index < 0)
        return PyErr_Format(PyExc_ImportError, "the interpreter has no room for more per-code data");
    dispatchers_name = PyUnicode_InternFromString("_hook_dispatchers");
    eager = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    PyObject *module = PyModule_Create(&eval_frame_module);
    if (module == NULL || eager == NULL || dispatchers_name == NULL || PyModule_AddObjectRef(module, "EAGER", eager) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
