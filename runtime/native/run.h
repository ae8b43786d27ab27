// The state of one run of a program, shared by the threads of the run.
#pragma once
#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <vector>

namespace oneflow {

/// The first failed check, and the temporary memory of the run. Kernels allocate and free memory on every thread.
struct Run {
  std::atomic<bool> failed{false};
  int64_t kind = 0, site = 0, got = 0, wanted = 0;
  std::mutex mutex;
  std::vector<void *> temporaries;

  void add_temporary(void *pointer) {
    const std::lock_guard<std::mutex> lock(mutex);
    temporaries.push_back(pointer);
  }

  void remove_temporary(void *pointer) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = std::find(temporaries.rbegin(), temporaries.rend(), pointer);
    if (found != temporaries.rend()) temporaries.erase(std::next(found).base());
  }

  void fail(int64_t failure_kind, int64_t failure_site, int64_t first, int64_t second) {
    if (failed.exchange(true)) return;
    kind = failure_kind, site = failure_site, got = first, wanted = second;
  }
};

/// The run of the calling thread.
Run *&current_run();

/// The target of `longjmp` in the calling thread for a failure in compiled code; null outside runs.
std::jmp_buf *&jump_target();

/// Jumps from compiled code to the innermost `run_protected` of this thread. Frames in between must not own resources.
[[noreturn]] void abort_run();

/// Calls `code`; returns false if `abort_run` ended the call.
template <class Code>
bool run_protected(const Code &code) {
  std::jmp_buf target;
  std::jmp_buf *const outer = jump_target();
  const bool entered = setjmp(target) == 0;
  if (entered) {
    jump_target() = &target;
    code();
  }
  jump_target() = outer;
  return entered;
}

}  // namespace oneflow
