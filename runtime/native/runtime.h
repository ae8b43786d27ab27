// The functions that compiled programs call, in plain C. lowering/ emits these names.
#pragma once
#include <cstdint>

extern "C" {

/// The version of this interface; runtime/native.py refuses other versions.
int64_t oneflow_rt_version();

/// Memory aligned to 64 bytes, from a small cache. If no memory is left, the run fails and the program's code ends at
/// once; outside a run the result is null.
void *oneflow_rt_alloc(int64_t bytes);
void oneflow_rt_free(void *pointer);
/// As `oneflow_rt_alloc`; the memory is freed at the end of the run at the latest.
void *oneflow_rt_temporary(int64_t bytes);
void oneflow_rt_release(void *pointer);

/// a * b for byte counts; saturates at the largest int64_t.
int64_t oneflow_rt_times(int64_t a, int64_t b);

void oneflow_rt_copy(void *target, const void *source, int64_t bytes);

/// Calls `body(arguments, begin, end)` on ranges that cover [0, count), on several threads. Ranges have at least
/// `grain` steps, except the last. Does not return if the run has failed meanwhile.
void oneflow_rt_parallel_for(void (*body)(void *, int64_t, int64_t), void *arguments, int64_t count, int64_t grain);

/// `index` if in [0, size); otherwise 0, and the run is marked as failed at `site`. If `size` is 0, no element can
/// be read and the code of the run ends at once.
int64_t oneflow_rt_check_index(int64_t index, int64_t size, int32_t site);
/// Marks the run as failed at `site` if the sizes differ, and ends the code of the run at once. Called only on the
/// thread of the plan.
void oneflow_rt_check_size(int64_t got, int64_t wanted, int32_t site);
/// Calls the external kernel `function(context, buffers, stream)`; the run is marked as failed at index `kernel` if the
/// result is not 0.
void oneflow_rt_call(int64_t function, int64_t context, int64_t buffers, int32_t kernel);
/// The arguments of `cuLaunchKernelEx`.
struct oneflow_rt_launch {
  const void *config;
  void *function;
  void **parameters;
};
/// Calls `launch` for all launches in order, up to the first failure. Returns the number of successful launches;
/// `status` is the last result.
int64_t oneflow_rt_launch_all(int32_t (*launch)(const void *, void *, void **, void **),
                              const oneflow_rt_launch *launches, int64_t count, int32_t *status);
/// Whether a check or a kernel of this run has failed.
int64_t oneflow_rt_failed();

/// Runs `entry(io, workspace)` with a workspace of `bytes`. Returns 0 for success; 1 for an index out of bounds and 2
/// for differing sizes, with the site and the two numbers of the first failed check in `failure`; 3 if memory ran out,
/// with the requested bytes; 4 if an external kernel failed.
int64_t oneflow_rt_run(void (*entry)(int64_t *, void *), int64_t *io, int64_t bytes, int64_t *failure);

/// The number of threads of a parallel loop.
int64_t oneflow_rt_threads();
void oneflow_rt_set_threads(int64_t count);
}
