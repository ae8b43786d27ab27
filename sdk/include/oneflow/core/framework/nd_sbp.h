// SBPs of tensors on a mesh of devices, with the methods of OneFlow's messages.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oneflow/core/common/maybe.h"

namespace oneflow {

/// The SBP of a tensor along one mesh axis: kind is 'S' with an axis, 'B' or 'P'.
class SbpParallel final {
 public:
  SbpParallel() : SbpParallel('B', 0) {}
  SbpParallel(char kind, int64_t axis) : kind_(kind), axis_(axis) {}

  char kind() const { return kind_; }
  bool has_split_parallel() const { return kind_ == 'S'; }
  bool has_broadcast_parallel() const { return kind_ == 'B'; }
  bool has_partial_sum_parallel() const { return kind_ == 'P'; }
  const SbpParallel &split_parallel() const { return *this; }
  int64_t axis() const { return axis_; }
  SbpParallel *mutable_split_parallel() { return Become('S'); }
  SbpParallel *mutable_broadcast_parallel() { return Become('B'); }
  SbpParallel *mutable_partial_sum_parallel() { return Become('P'); }
  void set_axis(int64_t axis) { axis_ = axis; }
  bool operator==(const SbpParallel &other) const {
    return kind_ == other.kind_ && (kind_ != 'S' || axis_ == other.axis_);
  }

 private:
  SbpParallel *Become(char kind) {
    kind_ = kind;
    axis_ = 0;
    return this;
  }

  char kind_;
  int64_t axis_;
};

/// The nd-SBP of a tensor: one SbpParallel for each mesh axis.
class NdSbp final {
 public:
  NdSbp() = default;
  explicit NdSbp(const std::vector<SbpParallel> &along) : along_(along) {}

  int32_t sbp_parallel_size() const { return static_cast<int32_t>(along_.size()); }
  const SbpParallel &sbp_parallel(int32_t axis) const { return along_.at(static_cast<size_t>(axis)); }
  SbpParallel *mutable_sbp_parallel(int32_t axis) { return &along_.at(static_cast<size_t>(axis)); }
  SbpParallel *add_sbp_parallel() {
    along_.emplace_back();
    return &along_.back();
  }
  void clear_sbp_parallel() { along_.clear(); }

 private:
  std::vector<SbpParallel> along_;
};

/// The SBP of every tensor of a call along one mesh axis, by GenRepeatedBn.
class SbpSignature final {
 public:
  const std::map<std::string, SbpParallel> &bn_in_op2sbp_parallel() const { return tensors_; }
  std::map<std::string, SbpParallel> *mutable_bn_in_op2sbp_parallel() { return &tensors_; }

 private:
  std::map<std::string, SbpParallel> tensors_;
};

/// The name of tensor number `index` of an operand or result in a signature.
inline std::string GenRepeatedBn(const std::string &name, int32_t index) { return name + "_" + std::to_string(index); }

/// The nd-SBP of every tensor of a call, by GenRepeatedBn.
class NdSbpSignature final {
 public:
  const std::map<std::string, NdSbp> &bn_in_op2nd_sbp() const { return tensors_; }
  std::map<std::string, NdSbp> *mutable_bn_in_op2nd_sbp() { return &tensors_; }

 private:
  std::map<std::string, NdSbp> tensors_;
};

}  // namespace oneflow
