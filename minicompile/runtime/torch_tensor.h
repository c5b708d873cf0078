/* Reading torch tensors without torch's headers, for the extensions that see tensors on every call.
 *
 * In:   torch_compat.tensor_layout() has found, by looking at tensors that it made, where a Python tensor object keeps
 *       its at::Tensor and where that one's TensorImpl keeps its dispatch keys; and, in torch's libraries, the C functions
 *       of its stable interface (aoti_torch_get_…), which take a pointer to the at::Tensor.
 * Out:  what is asked for, without a Python call.  Where nothing was found (another torch, another platform) the
 *       extensions ask the tensor's Python methods, or are not used.
 */
#ifndef MINICOMPILE_TORCH_TENSOR_H
#define MINICOMPILE_TORCH_TENSOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef int32_t (*get_pointer)(void *tensor, void **result); /* these return 0, or an error's number */
typedef int32_t (*get_int64)(void *tensor, int64_t *result);
typedef int32_t (*get_int32)(void *tensor, int32_t *result);
typedef int32_t (*get_int64s)(void *tensor, int64_t **result);
typedef int64_t (*get_depth)(void);
typedef size_t (*get_size)(int32_t dtype);

static struct {
    int is_known;
    PyTypeObject *tensor, *parameter; /* the two classes whose methods are known to be torch's own */
    Py_ssize_t handle;                /* bytes from the start of a tensor object to its at::Tensor */
    Py_ssize_t keys;                  /* bytes from the start of a TensorImpl to its dispatch keys */
    get_pointer data_ptr;
    get_int32 dtype, device_type, device_index;
    get_int64 dim;
    get_int64s sizes, strides;
    int8_t (*requires_grad)(void *impl); /* a method of TensorImpl, which returns a bool */
    get_depth function_modes, dispatch_modes; /* how many are active in this thread */
    get_size element_size;                    /* bytes, of a dtype */
    void *library;                       /* as dlopen() gave it: where local_keys is found for each thread */
    const char *local_keys;              /* the symbol of the thread's own included and excluded dispatch keys */
} torch_layout;

static PyObject *data_ptr_name; /* the interned string "data_ptr" */

static inline void *
tensor_handle(PyObject *tensor)
{
    return (char *)tensor + torch_layout.handle;
}

/* The tensor's TensorImpl; NULL in a tensor object that has none. */
static inline void *
implementation(PyObject *tensor)
{
    return *(void **)tensor_handle(tensor);
}

static inline uint64_t
keys_of(void *impl)
{
    return *(uint64_t *)((char *)impl + torch_layout.keys);
}

/* Whether the tensor's methods are known to be torch's own. */
static inline int
is_of_plain_class(PyObject *tensor)
{
    return Py_TYPE(tensor) == torch_layout.tensor || Py_TYPE(tensor) == torch_layout.parameter;
}

static inline int
address_by_method(PyObject *tensor, void **address)
{
    PyObject *number = PyObject_VectorcallMethod(data_ptr_name, &tensor, 1, NULL);
    if (number == NULL)
        return -1;
    *address = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return *address == NULL && PyErr_Occurred() ? -1 : 0;
}

/* What tensor.data_ptr() returns.  A subclass is asked by its method, since it may have one of its own. */
static inline int
address_of(PyObject *tensor, void **address)
{
    if (torch_layout.is_known && is_of_plain_class(tensor) && torch_layout.data_ptr(tensor_handle(tensor), address) == 0)
        return 0;
    return address_by_method(tensor, address);
}

/* use_layout(layout): a TensorLayout's fields; they are kept for good.  A module that includes this offers it. */
static PyObject *
use_layout(PyObject *Py_UNUSED(module), PyObject *fields)
{
    unsigned long long functions[11], library;
    PyObject *tensor, *parameter;
    Py_ssize_t handle, keys;
    const char *local_keys;
    if (!PyArg_ParseTuple(fields, "O!O!nn(KKKKKKKKKKK)Ks", &PyType_Type, &tensor, &PyType_Type, &parameter, &handle, &keys,
                          &functions[0], &functions[1], &functions[2], &functions[3], &functions[4], &functions[5],
                          &functions[6], &functions[7], &functions[8], &functions[9], &functions[10],
                          &library, &local_keys))
        return NULL;
    if (!torch_layout.is_known) {
        torch_layout.tensor = (PyTypeObject *)Py_NewRef(tensor);
        torch_layout.parameter = (PyTypeObject *)Py_NewRef(parameter);
        torch_layout.handle = handle;
        torch_layout.keys = keys;
        torch_layout.data_ptr = (get_pointer)(uintptr_t)functions[0];
        torch_layout.dtype = (get_int32)(uintptr_t)functions[1];
        torch_layout.device_type = (get_int32)(uintptr_t)functions[2];
        torch_layout.device_index = (get_int32)(uintptr_t)functions[3];
        torch_layout.dim = (get_int64)(uintptr_t)functions[4];
        torch_layout.sizes = (get_int64s)(uintptr_t)functions[5];
        torch_layout.strides = (get_int64s)(uintptr_t)functions[6];
        torch_layout.requires_grad = (int8_t(*)(void *))(uintptr_t)functions[7];
        torch_layout.function_modes = (get_depth)(uintptr_t)functions[8];
        torch_layout.dispatch_modes = (get_depth)(uintptr_t)functions[9];
        torch_layout.element_size = (get_size)(uintptr_t)functions[10];
        torch_layout.library = (void *)(uintptr_t)library;
        torch_layout.local_keys = local_keys;
        Py_INCREF(fields); /* for good: local_keys points into a string of theirs */
        torch_layout.is_known = 1;
    }
    Py_RETURN_NONE;
}

#define USE_LAYOUT {"use_layout", use_layout, METH_O, "Read tensors as this TensorLayout says; see torch_tensor.h."}

#endif
