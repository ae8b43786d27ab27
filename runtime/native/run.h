// The state of one run of a program: shared by the threads that work for it.
#pragma once
#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <vector>

namespace oneflow {

/// The first failed check, and memory that the run still holds. Kernels take and give back memory on every thread.
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

/// The run that the calling thread works for.
Run *&current_run();

/// Where the calling thread goes when compiled code cannot go on; null outside runs.
std::jmp_buf *&landing();

/// Leaves compiled code for the innermost `land` of this thread. Frames between must not own anything.
[[noreturn]] void leave();

/// Calls `code`; false if it was left.
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
