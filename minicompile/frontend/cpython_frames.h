/* What eval_frame.c must know about interpreter frames, one CPython release at a time.
 *
 * Everything else in the hook uses public API.  A release that isn't listed here doesn't compile, and since the
 * extension is optional the package then installs without it and compiles functions through a wrapper instead.
 */
#ifndef MINICOMPILE_CPYTHON_FRAMES_H
#define MINICOMPILE_CPYTHON_FRAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000 || defined(Py_GIL_DISABLED)
#error "eval_frame.c knows the frames of CPython 3.11, 3.12 and 3.13 with the global interpreter lock"
#endif

#define Py_BUILD_CORE
#undef _PyGC_FINALIZED
#include <internal/pycore_frame.h>
#include <internal/pycore_pystate.h>
#if PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_ceval.h>
#endif
#undef Py_BUILD_CORE

typedef _PyInterpreterFrame Frame;

#if PY_VERSION_HEX < 0x030c0000
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#endif

static inline PyCodeObject *
frame_code(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030d0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

static inline PyObject *
frame_function(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030c0000
    return frame->f_funcobj;
#else
    return (PyObject *)frame->f_func;
#endif
}

/* Whether `reference` is a weak reference to `object`, which is alive. */
static inline int
refers_to(PyObject *reference, PyObject *object)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *referent = NULL;
    (void)PyWeakref_GetRef(reference, &referent);
    Py_XDECREF(referent); /* `object` itself keeps it alive where they are the same */
    return referent == object;
#else
    return PyWeakref_GET_OBJECT(reference) == object;
#endif
}

/* What a weak reference refers to: a new reference, or NULL without an exception when it has died. */
static inline PyObject *
dereference(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *referent = NULL;
    (void)PyWeakref_GetRef(reference, &referent);
    return referent;
#else
    PyObject *referent = PyWeakref_GET_OBJECT(reference);
    return referent == Py_None ? NULL : Py_NewRef(referent);
#endif
}

/* Take down a frame that was handed to an evaluator and never started.
 *
 * On 3.11 whoever calls an evaluator clears the frame; from 3.12 on the evaluator does.  Such a frame was never linked
 * into the thread's list of frames, so no frame object can refer to it.
 */
#if PY_VERSION_HEX >= 0x030d0000

static inline void
discard_frame(PyThreadState *thread, Frame *frame)
{
    _PyEval_FrameClearAndPop(thread, frame);
}

#elif PY_VERSION_HEX >= 0x030c0000

/* 3.12 exports neither _PyEvalFrameClearAndPop nor _PyThreadState_PopFrame; these are their bodies. */
static inline void
pop_frame(PyThreadState *thread, Frame *frame)
{
    PyObject **base = (PyObject **)frame;
    _PyStackChunk *chunk = thread->datastack_chunk;
    if (base != &chunk->data[0]) {
        thread->datastack_top = base;
        return;
    }
    _PyStackChunk *previous = chunk->previous; /* the frame was the first of its chunk, never of the first chunk */
    thread->datastack_top = &previous->data[previous->top];
    thread->datastack_chunk = previous;
    thread->datastack_limit = (PyObject **)((char *)previous + previous->size);
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    arena.free(arena.ctx, chunk, chunk->size);
}

static inline void
discard_frame(PyThreadState *thread, Frame *frame)
{
    assert(frame->frame_obj == NULL && frame->owner == FRAME_OWNED_BY_THREAD);
    for (int i = 0; i < frame->stacktop; i++)
        Py_XDECREF(frame->localsplus[i]);
    Py_XDECREF(frame->f_locals);
    Py_DECREF(frame->f_funcobj);
    Py_DECREF(frame->f_code);
    pop_frame(thread, frame);
}

#else

static inline void
discard_frame(PyThreadState *Py_UNUSED(thread), Frame *Py_UNUSED(frame))
{
}

#endif
#endif
