// The state of one run of a program: shared by the threads that work for it.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

namespace oneflow {

/// The first failed check, and memory that the run still holds.
struct Run {
  std::atomic<bool> failed{false};
  int64_t kind = 0, site = 0, got = 0, wanted = 0;
  std::vector<void *> temporaries;

  void fail(int64_t what, int64_t at, int64_t first, int64_t second) {
    if (failed.exchange(true)) return;
    kind = what, site = at, got = first, wanted = second;
  }
};

/// The run that the calling thread works for.
Run *&current_run();

}  // namespace oneflow
