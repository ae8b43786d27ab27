// The shape of a tensor.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "oneflow/core/common/maybe.h"

namespace oneflow {

using DimVector = std::vector<int64_t>;
using AxisVector = std::vector<int64_t>;

/// Sizes by axis. `Shape()` is uninitialized, `Shape({})` is the shape of a scalar.
class Shape final {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims), is_initialized_(true) {}
  explicit Shape(const DimVector &dims) : dims_(dims), is_initialized_(true) {}

  bool is_initialized() const { return is_initialized_; }
  int64_t NumAxes() const { return static_cast<int64_t>(dims_.size()); }
  int64_t size() const { return NumAxes(); }
  int64_t elem_cnt() const { return Count(0); }
  const DimVector &dim_vec() const { return dims_; }
  const int64_t *ptr() const { return dims_.data(); }
  DimVector::const_iterator begin() const { return dims_.begin(); }
  DimVector::const_iterator end() const { return dims_.end(); }

  /// The size along an axis.
  int64_t At(int64_t axis) const { return dims_[Checked(axis)]; }
  int64_t at(int64_t axis) const { return At(axis); }
  int64_t operator[](int64_t axis) const { return At(axis); }
  void Set(int64_t axis, int64_t size) { dims_[Checked(axis)] = size; }

  /// The product of the sizes of the axes in [begin, end).
  int64_t Count(int64_t begin, int64_t end) const {
    int64_t count = 1;
    for (int64_t axis = begin; axis < end; ++axis) count *= At(axis);
    return count;
  }
  int64_t Count(int64_t begin) const { return Count(begin, NumAxes()); }

  bool operator==(const Shape &other) const { return dims_ == other.dims_; }
  bool operator!=(const Shape &other) const { return !(*this == other); }

  /// The shape as "(2,3)".
  std::string ToString() const {
    std::string text;
    for (int64_t dim : dims_) text += (text.empty() ? "" : ",") + std::to_string(dim);
    return "(" + text + ")";
  }
  std::string DebugStr() const { return ToString(); }

 private:
  size_t Checked(int64_t axis) const {
    if (axis < 0 || axis >= NumAxes()) {
      detail::Refuse(Error() << "expected an axis in [0, " << NumAxes() << "), got axis " << axis << " of the shape "
                             << ToString());
    }
    return static_cast<size_t>(axis);
  }

  DimVector dims_;
  bool is_initialized_ = false;
};

inline std::ostream &operator<<(std::ostream &out, const Shape &shape) { return out << shape.ToString(); }

using ShapeView = Shape;
using Stride = Shape;
/// The older name in `.Attr<shape>("shape")`.
using shape = Shape;

}  // namespace oneflow
