// Runs of programs, the checks of running programs, and launches on a device.
#include "run.h"

#include "runtime.h"

namespace oneflow {

Run *&current_run() {
  static thread_local Run *run = nullptr;
  return run;
}

std::jmp_buf *&jump_target() {
  static thread_local std::jmp_buf *target = nullptr;
  return target;
}

void abort_run() { std::longjmp(*jump_target(), 1); }

}  // namespace oneflow

using oneflow::current_run;
using oneflow::Run;

int64_t oneflow_rt_version() { return 5; }

int64_t oneflow_rt_check_index(int64_t index, int64_t size, int32_t site) {
  if (index >= 0 && index < size) return index;
  current_run()->fail(1, site, index, size);
  if (size <= 0) oneflow::abort_run();
  return 0;
}

void oneflow_rt_check_size(int64_t got, int64_t wanted, int32_t site) {
  if (got == wanted) return;
  current_run()->fail(2, site, got, wanted);
  oneflow::abort_run();
}

void oneflow_rt_call(int64_t function, int64_t context, int64_t buffers, int32_t kernel) {
  const auto launch = reinterpret_cast<int32_t (*)(void *, void *const *, void *)>(function);
  const int32_t status = launch(reinterpret_cast<void *>(context), reinterpret_cast<void *const *>(buffers), nullptr);
  if (status != 0) current_run()->fail(4, kernel, status, 0);
}

int64_t oneflow_rt_launch_all(int32_t (*launch)(const void *, void *, void **, void **),
                              const oneflow_rt_launch *launches, int64_t count, int32_t *status) {
  *status = 0;
  for (int64_t i = 0; i < count; ++i) {
    *status = launch(launches[i].config, launches[i].function, launches[i].parameters, nullptr);
    if (*status != 0) return i;
  }
  return count;
}

int64_t oneflow_rt_failed() { return current_run()->failed; }

int64_t oneflow_rt_run(void (*entry)(int64_t *, void *), int64_t *io, int64_t bytes, int64_t *failure) {
  Run run;
  Run *const outer = current_run();
  current_run() = &run;
  void *workspace = nullptr;
  oneflow::run_protected([&] {
    if (bytes > 0) workspace = oneflow_rt_alloc(bytes);
    entry(io, workspace);
  });
  current_run() = outer;
  oneflow_rt_free(workspace);
  for (void *pointer : run.temporaries) oneflow_rt_free(pointer);
  if (!run.failed) return 0;
  failure[0] = run.site, failure[1] = run.got, failure[2] = run.wanted;
  return run.kind;
}
