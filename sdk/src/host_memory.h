// Host memory for kernels.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "oneflow/core/common/maybe.h"

namespace oneflow {

constexpr size_t kAlignment = 64;

struct Free {
  void operator()(void *pointer) const { std::free(pointer); }
};
using Memory = std::unique_ptr<unsigned char, Free>;

/// The next multiple of the alignment.
inline size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Memory that begins at a multiple of the alignment. Throws CheckError if no memory is left.
inline Memory Allocate(int64_t bytes) {
  void *pointer = std::aligned_alloc(kAlignment, Aligned(static_cast<size_t>(std::max<int64_t>(bytes, 1))));
  if (pointer == nullptr) throw CheckError("memory ran out: " + std::to_string(bytes) + " bytes for a kernel");
  return Memory(static_cast<unsigned char *>(pointer));
}

}  // namespace oneflow
