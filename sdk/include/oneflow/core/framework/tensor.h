// Tensors of a program under construction, for functors and gradients in C++.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "oneflow/core/framework/tensor_desc.h"

namespace oneflow {
namespace one {

/// A tensor of the program: the description and the number of the tensor.
class Tensor final {
 public:
  Tensor(int64_t id, const user_op::TensorDesc &desc) : id_(id), desc_(desc) {}

  int64_t id() const { return id_; }
  DataType dtype() const { return desc_.data_type(); }
  int64_t ndim() const { return desc_.shape().NumAxes(); }
  /// The shape; an error if a size is not known before the program runs.
  std::shared_ptr<const Shape> shape() const {
    for (int64_t size : desc_.shape()) {
      if (size < 0) oneflow::detail::Refuse(Error("the function reads sizes and needs static shapes"));
    }
    return std::make_shared<const Shape>(desc_.shape());
  }
  int64_t dim(int64_t axis) const { return shape()->At(axis); }
  int64_t nelement() const { return shape()->elem_cnt(); }
  /// Whether the tensor may have a gradient: floating-point tensors may.
  bool requires_grad() const { return IsFloatingDataType(desc_.data_type()); }

 private:
  int64_t id_;
  user_op::TensorDesc desc_;
};

/// Several tensors; a missing tensor is null.
class TensorTuple final : public std::vector<std::shared_ptr<Tensor>> {
 public:
  TensorTuple() = default;
  explicit TensorTuple(size_t size) : std::vector<std::shared_ptr<Tensor>>(size) {}
  TensorTuple(std::initializer_list<std::shared_ptr<Tensor>> tensors)
      : std::vector<std::shared_ptr<Tensor>>(tensors) {}
};

}  // namespace one
}  // namespace oneflow
