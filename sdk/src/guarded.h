// Buffers between guards, which detect writes out of bounds.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "host_memory.h"

namespace oneflow {

/// Buffers in one allocation, with a guard before each and after the last.
///
/// One allocation, so that a write far out of bounds damages memory of this object, not of another allocation.
class GuardedBuffers final {
 public:
  /// `sizes` are names and bytes.
  explicit GuardedBuffers(std::vector<std::pair<std::string, int64_t>> sizes);

  unsigned char *data(size_t number) const { return memory_.get() + begins_[number]; }
  size_t bytes(size_t number) const { return static_cast<size_t>(sizes_[number].second); }
  const std::string &name(size_t number) const { return sizes_[number].first; }

  /// Throws CheckError if a guard was overwritten; the text names the nearest buffer.
  void CheckGuards() const;
  /// Throws CheckError if words of a buffer were not written.
  void CheckWritten(size_t number) const;

 private:
  size_t End(size_t number) const { return begins_[number] + bytes(number); }
  /// The first byte from `begin` to `end` that differs from the guard pattern; `end` if no byte differs.
  size_t FirstDamage(size_t begin, size_t end) const;
  [[noreturn]] void Fail(size_t position, size_t next) const;

  std::vector<std::pair<std::string, int64_t>> sizes_;
  std::vector<size_t> begins_;
  size_t total_;
  Memory memory_;
};

}  // namespace oneflow
