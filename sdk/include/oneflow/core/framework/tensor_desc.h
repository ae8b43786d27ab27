// The description of a tensor, and the tensor that a kernel gets.
#pragma once
#include <cstdint>
#include <string>

#include "oneflow/core/common/data_type.h"
#include "oneflow/core/common/shape.h"
#include "oneflow/core/common/util.h"

namespace oneflow {

/// The order of a tensor's elements in memory, always kContiguous in this SDK.
enum class MemoryFormat { kContiguous = 0, kChannelsLast = 1, kPreserve = 2 };

/// The device of memory.
class MemoryCase final {
 public:
  explicit MemoryCase(DeviceType device) : device_(device) {}
  DeviceType device_type() const { return device_; }
  bool has_host_mem() const { return device_ == kCPU; }
  bool has_device_cuda_mem() const { return device_ == kCUDA; }

 private:
  DeviceType device_;
};

namespace user_op {

/// Shape and element type of a contiguous tensor.
class TensorDesc final {
 public:
  TensorDesc() = default;
  TensorDesc(const Shape &shape, DataType data_type) : shape_(shape), data_type_(data_type) {}

  const Shape &shape() const { return shape_; }
  DataType data_type() const { return data_type_; }
  bool is_dynamic() const { return is_dynamic_; }
  MemoryFormat memory_format() const { return MemoryFormat::kContiguous; }
  /// Distances of elements along each axis; tensors are always contiguous.
  Stride stride() const {
    DimVector strides(static_cast<size_t>(shape_.NumAxes()), 1);
    for (int64_t axis = shape_.NumAxes() - 2; axis >= 0; --axis) {
      strides[static_cast<size_t>(axis)] = strides[static_cast<size_t>(axis) + 1] * shape_.At(axis + 1);
    }
    return Stride(strides);
  }

  void set_shape(const Shape &shape) { shape_ = shape; }
  void set_data_type(DataType data_type) { data_type_ = data_type; }
  void set_is_dynamic(bool is_dynamic) { is_dynamic_ = is_dynamic; }
  void set_stride(const Stride &) {}
  void set_memory_format(MemoryFormat) {}
  Shape *mut_shape() { return &shape_; }
  DataType *mut_data_type() { return &data_type_; }
  bool *mut_is_dynamic() { return &is_dynamic_; }

 private:
  Shape shape_;
  DataType data_type_ = kInvalidDataType;
  bool is_dynamic_ = false;
};

using NaiveTensorDesc = TensorDesc;

/// A tensor of a running kernel: description and memory.
class Tensor final {
 public:
  Tensor(const std::string &name, const TensorDesc &desc, DeviceType device)
      : name_(name), desc_(desc), device_(device) {}

  const Shape &shape() const { return desc_.shape(); }
  const Shape &shape_view() const { return desc_.shape(); }
  /// The shape: sizes are known before a kernel runs.
  const Shape &mut_shape_view() const { return desc_.shape(); }
  Stride stride() const { return desc_.stride(); }
  DataType data_type() const { return desc_.data_type(); }
  MemoryFormat memory_format() const { return desc_.memory_format(); }
  MemoryCase mem_case() const { return MemoryCase(device_); }
  const void *raw_dptr() const { return data_; }
  void *mut_raw_dptr() { return data_; }

  /// The elements; T has to be the tensor's element type (or void, char for raw bytes).
  template <typename T = void>
  const T *dptr() const {
    return static_cast<const T *>(Checked<T>());
  }
  template <typename T = void>
  T *mut_dptr() {
    return static_cast<T *>(Checked<T>());
  }

  void set_data(void *data) { data_ = data; }

 private:
  template <typename T>
  void *Checked() const {
    Check(Code<T>(0));
    return data_;
  }
  template <typename T>
  static typename GetDataType<T>::value_type Code(int) {
    return GetDataType<T>::value;
  }
  template <typename T>
  static DataType Code(...) {
    return kChar;
  }
  void Check(DataType asked) const {
    if (asked == kChar || data_type() == kChar || asked == data_type()) return;
    detail::Refuse(Error() << "the tensor " << name_ << " has elements of " << DataType_Name(data_type())
                           << ", it was read as " << DataType_Name(asked));
  }

  std::string name_;
  TensorDesc desc_;
  DeviceType device_;
  void *data_ = nullptr;
};

}  // namespace user_op

using user_op::TensorDesc;

}  // namespace oneflow
