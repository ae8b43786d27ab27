// Seeds, which functions over tensors pass to operators.
#pragma once
#include <cstdint>

#include "oneflow/core/common/maybe.h"

namespace oneflow {
namespace one {

/// A seed. Random operators combine the seed with the seeds of `flow.manual_seed` and of the run.
class Generator final {
 public:
  explicit Generator(uint64_t seed) : seed_(seed) {}
  uint64_t current_seed() const { return seed_; }
  void set_current_seed(uint64_t seed) { seed_ = seed; }

 private:
  uint64_t seed_;
};

/// The seed of calls without a seed.
inline Maybe<Generator> DefaultAutoGenerator() { return Generator(0); }

}  // namespace one
}  // namespace oneflow
