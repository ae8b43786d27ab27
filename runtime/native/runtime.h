// What compiled programs call. The names are those that lowering/ emits; all are plain C.
#pragma once
#include <cstdint>

extern "C" {

/// The version of this interface; runtime/native.py refuses another.
int64_t oneflow_rt_version();

/// Memory aligned to 64 bytes, from a small cache. Where the system has none the run fails and its code is left
/// at once; outside a run the result is null.
void *oneflow_rt_alloc(int64_t bytes);
void oneflow_rt_free(void *pointer);
/// The same, but freed at the end of the run if the program has not done so.
void *oneflow_rt_temporary(int64_t bytes);
void oneflow_rt_release(void *pointer);

/// a * b for counts of bytes; the largest number where the product is larger.
int64_t oneflow_rt_times(int64_t a, int64_t b);

void oneflow_rt_copy(void *target, const void *source, int64_t bytes);

/// Calls `body(arguments, begin, end)` on ranges that cover [0, count), on several threads. Ranges hold at least
/// `grain` steps, except the last. Does not return to a run that has failed meanwhile.
void oneflow_rt_parallel_for(void (*body)(void *, int64_t, int64_t), void *arguments, int64_t count, int64_t grain);

/// `position` if it is in [0, size); else 0, and the run is marked as failed at `site`. Where the size is 0 there is
/// nothing to read, and the run's code is left at once.
int64_t oneflow_rt_check_index(int64_t position, int64_t size, int32_t site);
/// Marks the run as failed at `site` where the sizes differ, and leaves its code at once. Plans and kernels that run on
/// the thread of the plan call it.
void oneflow_rt_check_size(int64_t got, int64_t wanted, int32_t site);
/// Calls the kernel `function(context, buffers, stream)` made elsewhere; the run is marked as failed at kernel
/// `number` where it does not return 0.
void oneflow_rt_call(int64_t function, int64_t context, int64_t buffers, int32_t number);
/// One launch on a device, as the driver's `cuLaunchKernelEx` takes it.
struct oneflow_rt_launch {
  const void *config;
  void *function;
  void **parameters;
};
/// Calls that function, `give`, for launches one after the other, up to the first that it does not return 0 for.
/// Returns how many it took; `status` is what it returned last.
int64_t oneflow_rt_launch_all(int32_t (*give)(const void *, void *, void **, void **),
                              const oneflow_rt_launch *launches, int64_t count, int32_t *status);
/// Whether a check or a kernel of this run has failed.
int64_t oneflow_rt_failed();

/// Runs `entry(io, workspace)` with a workspace of `bytes`. Returns 0; 1 if a position was out of range, 2 if sizes
/// differed, with the first such check's site and its two numbers in `failure`; 3 if memory ran out, with the bytes.
int64_t oneflow_rt_run(void (*entry)(int64_t *, void *), int64_t *io, int64_t bytes, int64_t *failure);

/// How many threads a parallel loop uses.
int64_t oneflow_rt_threads();
void oneflow_rt_set_threads(int64_t count);
}
