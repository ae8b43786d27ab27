// The extension module `oneflow.runtime._calls`: calls of compiled programs with arrays of NumPy that need no
// conversion. `fast_path.py` describes the call, and has the same in Python.
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using Run = int64_t (*)(void *entry, int64_t *io, int64_t bytes, int64_t *failure);
using Free = void (*)(void *memory);

/// The type of an argument or a result; a result may be the memory of an argument.
struct Type {
  PyArray_Descr *dtype = nullptr;
  std::vector<npy_intp> shape;
  std::uintptr_t alignment = 1;
  Py_ssize_t argument = -1;
  bool is_written = false;
};

/// A compiled program with its arguments and results, without sizes that are known at run time only.
struct Program {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *fail;
  void *entry;
  Run run;
  int64_t workspace;
  std::vector<Type> *inputs, *results;
  std::vector<int64_t> *called;
};

Free release = nullptr;

void free_memory(PyObject *capsule) { release(PyCapsule_GetPointer(capsule, nullptr)); }

/// Whether an object is an array of exactly the type, in memory that the program can read, and write if it does so.
bool matches(const Type &type, PyObject *value) {
  if (!PyArray_CheckExact(value)) return false;
  auto *array = reinterpret_cast<PyArrayObject *>(value);
  const auto ndim = static_cast<int>(type.shape.size());
  if (PyArray_DESCR(array) != type.dtype || PyArray_NDIM(array) != ndim) return false;
  if (!std::equal(type.shape.begin(), type.shape.end(), PyArray_DIMS(array))) return false;
  if (!PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS | (type.is_written ? NPY_ARRAY_WRITEABLE : 0))) return false;
  return reinterpret_cast<std::uintptr_t>(PyArray_DATA(array)) % type.alignment == 0;
}

/// A result as an array that owns its memory, also if no array can be made.
PyObject *new_array(const Type &type, void *memory) {
  PyObject *owner = PyCapsule_New(memory, nullptr, free_memory);
  if (!owner) return release(memory), nullptr;
  Py_INCREF(type.dtype);
  PyObject *array =
      PyArray_NewFromDescr(&PyArray_Type, type.dtype, static_cast<int>(type.shape.size()), type.shape.data(), nullptr,
                           memory, NPY_ARRAY_CARRAY, nullptr);
  if (!array) return Py_DECREF(owner), nullptr;
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(array), owner) < 0) return Py_DECREF(array), nullptr;
  return array;
}

/// A Python list of integers.
PyObject *list_of(const int64_t *values, size_t count) {
  PyObject *list = PyList_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; list && i < count; ++i) {
    PyObject *item = PyLong_FromLongLong(values[i]);
    if (!item) return Py_DECREF(list), nullptr;
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
  }
  return list;
}

/// Has Python free the results of a failed run, and raise its error.
PyObject *failed(Program *self, const std::vector<int64_t> &io, int64_t status, const int64_t *failure) {
  PyObject *slots = list_of(io.data(), io.size()), *words = list_of(failure, 3);
  PyObject *none = slots && words ? PyObject_CallFunction(self->fail, "OLO", slots, (long long)status, words) : nullptr;
  if (none) PyErr_SetString(PyExc_SystemError, "expected an exception for a failed run");
  Py_XDECREF(slots), Py_XDECREF(words), Py_XDECREF(none);
  return nullptr;
}

/// The results in the slots of a run, as a list.
PyObject *results_of(Program *self, PyObject *const *arrays, const int64_t *slots) {
  const std::vector<Type> &types = *self->results;
  PyObject *list = PyList_New(static_cast<Py_ssize_t>(types.size()));
  for (size_t i = 0; i < types.size(); ++i) {
    const Py_ssize_t argument = types[i].argument;
    PyObject *array = nullptr;
    if (argument < 0) {
      array = new_array(types[i], reinterpret_cast<void *>(slots[i]));
    } else {
      array = arrays[argument];
      Py_INCREF(array);
    }
    if (list && array) PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), array);
    if (list && !array) Py_CLEAR(list);
    if (!list) Py_XDECREF(array);
  }
  return list;
}

PyObject *run(Program *self, PyObject *const *arrays) {
  const std::vector<Type> &inputs = *self->inputs;
  const size_t count = inputs.size();
  for (size_t i = 0; i < count; ++i) {
    if (!matches(inputs[i], arrays[i])) Py_RETURN_NONE;
  }
  std::vector<int64_t> io(count + self->results->size() + self->called->size());
  for (size_t i = 0; i < count; ++i) {
    io[i] = reinterpret_cast<int64_t>(PyArray_DATA(reinterpret_cast<PyArrayObject *>(arrays[i])));
  }
  std::copy(self->called->begin(), self->called->end(), io.end() - static_cast<std::ptrdiff_t>(self->called->size()));
  int64_t failure[3] = {0, 0, 0}, status = 0;
  Py_BEGIN_ALLOW_THREADS
  status = self->run(self->entry, io.data(), self->workspace, failure);
  Py_END_ALLOW_THREADS
  return status ? failed(self, io, status, failure) : results_of(self, arrays, io.data() + count);
}

/// `program(arrays)`: the results as a list, or None. A second argument is ignored.
PyObject *call(PyObject *object, PyObject *const *args, size_t flags, PyObject *names) {
  auto *self = reinterpret_cast<Program *>(object);
  const Py_ssize_t given = PyVectorcall_NARGS(flags);
  if (given < 1 || given > 2 || (names && PyTuple_GET_SIZE(names))) {
    return PyErr_SetString(PyExc_TypeError, "expected a sequence of arrays, and possibly an object to ignore"), nullptr;
  }
  // A tuple keeps the arrays, while another thread may change a list.
  PyObject *arrays = PySequence_Tuple(args[0]);
  if (!arrays) return nullptr;
  PyObject *results = Py_None;
  if (PyTuple_GET_SIZE(arrays) == static_cast<Py_ssize_t>(self->inputs->size())) {
    results = run(self, PySequence_Fast_ITEMS(arrays));
  } else {
    Py_INCREF(results);
  }
  Py_DECREF(arrays);
  return results;
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  auto *self = reinterpret_cast<Program *>(object);
  Py_VISIT(self->fail);
  return 0;
}

int clear(PyObject *object) {
  auto *self = reinterpret_cast<Program *>(object);
  Py_CLEAR(self->fail);
  return 0;
}

void deallocate(PyObject *object) {
  auto *self = reinterpret_cast<Program *>(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  for (const std::vector<Type> *types : {self->inputs, self->results}) {
    for (const Type &type : *types) Py_XDECREF(type.dtype);
    delete types;
  }
  delete self->called;
  PyObject_GC_Del(object);
}

PyTypeObject program_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

/// Reads `(dtype, shape, argument)` triples; `argument` is the index of the argument that a result is, or -1.
bool read_types(PyObject *rows, std::vector<Type> *types) {
  const Py_ssize_t count = PyTuple_GET_SIZE(rows);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *dtype, *shape;
    Type type;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, i), "O!O!n", &PyArrayDescr_Type, &dtype, &PyTuple_Type, &shape,
                          &type.argument)) {
      return false;
    }
    for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(shape); ++axis) {
      type.shape.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, axis)));
    }
    if (PyErr_Occurred()) return false;
    type.dtype = reinterpret_cast<PyArray_Descr *>(dtype);
    type.alignment = static_cast<std::uintptr_t>(PyDataType_ALIGNMENT(type.dtype));
    Py_INCREF(dtype);
    types->push_back(type);
  }
  return true;
}

/// `program(inputs, results, called, addresses, fail)`; `addresses` are the entry, `oneflow_rt_run`,
/// `oneflow_rt_free`, and the bytes of the workspace.
PyObject *new_program(PyObject *, PyObject *args) {
  PyObject *inputs, *results, *called, *fail;
  unsigned long long entry, run, free;
  long long workspace;
  if (!PyArg_ParseTuple(args, "O!O!O!(KKKL)O", &PyTuple_Type, &inputs, &PyTuple_Type, &results, &PyTuple_Type, &called,
                        &entry, &run, &free, &workspace, &fail)) {
    return nullptr;
  }
  auto *self = PyObject_GC_New(Program, &program_type);
  if (!self) return nullptr;
  self->vectorcall = call, self->entry = reinterpret_cast<void *>(entry), self->run = reinterpret_cast<Run>(run);
  self->workspace = workspace;
  self->inputs = new std::vector<Type>, self->results = new std::vector<Type>;
  self->called = new std::vector<int64_t>;
  release = reinterpret_cast<Free>(free);
  Py_INCREF(fail);
  self->fail = fail;
  PyObject_GC_Track(reinterpret_cast<PyObject *>(self));
  bool complete = read_types(inputs, self->inputs) && read_types(results, self->results);
  for (Py_ssize_t i = 0; complete && i < PyTuple_GET_SIZE(called); ++i) {
    self->called->push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(called, i)));
  }
  for (const Type &result : *self->results) {
    if (result.argument >= 0) (*self->inputs)[static_cast<size_t>(result.argument)].is_written = true;
  }
  if (!complete || PyErr_Occurred()) return Py_DECREF(self), nullptr;
  return reinterpret_cast<PyObject *>(self);
}

PyMethodDef methods[] = {{"program", new_program, METH_VARARGS, "The fast path of a program; see fast_path.py."},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_calls", "Calls of compiled programs.", -1, methods,
                      nullptr,               nullptr,  nullptr,                       nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__calls() {
  import_array();
  program_type.tp_name = "oneflow.runtime._calls.Program";
  program_type.tp_basicsize = sizeof(Program);
  program_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  program_type.tp_vectorcall_offset = offsetof(Program, vectorcall);
  program_type.tp_call = PyVectorcall_Call;
  program_type.tp_dealloc = deallocate;
  program_type.tp_traverse = traverse;
  program_type.tp_clear = clear;
  if (PyType_Ready(&program_type) < 0) return nullptr;
  PyObject *made = PyModule_Create(&module);
  if (made && PyModule_AddIntConstant(made, "VERSION", 1) < 0) Py_CLEAR(made);
  return made;
}
