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

  void hold(void *pointer) {
    const std::lock_guard<std::mutex> lock(mutex);
    temporaries.push_back(pointer);
  }

  void let_go(void *pointer) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = std::find(temporaries.rbegin(), temporaries.rend(), pointer);
    if (found != temporaries.rend()) temporaries.erase(std::next(found).base());
  }

  void fail(int64_t what, int64_t at, int64_t first, int64_t second) {
    if (failed.exchange(true)) return;
    kind = what, site = at, got = first, wanted = second;
  }
};

/// The run of the calling thread.
Run *&current_run();

/// The jump target of the calling thread for a failure in compiled code; null outside runs.
std::jmp_buf *&landing();

/// Jumps from compiled code to the innermost `land` of this thread. Frames in between must not own resources.
[[noreturn]] void leave();

/// Calls `code`; returns false if `leave` ended the call.
template <class Code>
bool land(const Code &code) {
  std::jmp_buf here;
  std::jmp_buf *const outer = landing();
  const bool entered = setjmp(here) == 0;
  if (entered) {
    landing() = &here;
    code();
  }
  landing() = outer;
  return entered;
}

}  // namespace oneflow
