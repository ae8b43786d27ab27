// The thread pool behind parallel loops: one job at a time; a second caller, or a nested loop, runs on the thread of the
// caller alone.
//
// Workers spin for a moment after a job, then sleep. A worker counts itself into `active` before it looks at
// `open`, and the caller closes the job before it waits for `active` to fall to zero, so neither waits for a
// worker that sleeps.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "run.h"
#include "runtime.h"

namespace {

using Body = void (*)(void *, int64_t, int64_t);

constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int64_t kMaxThreads = 1024;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

int64_t default_threads() {
  if (const char *text = std::getenv("ONEFLOW_NUM_THREADS")) {
    const int64_t count = std::atoll(text);
    if (count > 0) return std::min(count, kMaxThreads);
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

std::atomic<int64_t> thread_count{0};

class ThreadPool {
 public:
  /// Runs the job here and on workers; false if another job is running.
  bool run(Body body, void *arguments, int64_t count, int64_t grain) {
    std::unique_lock<std::mutex> lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    const int64_t threads = oneflow_rt_threads();
    start_workers(threads - 1);
    body_ = body, arguments_ = arguments, count_ = count;
    chunk_ = std::max(grain, count / (threads * 4));
    run_ = oneflow::current_run();
    next_.store(0);
    open_.store(true);
    wake_workers();
    work();
    open_.store(false);
    for (int spins = 0; active_.load() != 0; ++spins) spins < 2000 ? pause_briefly() : (void)sched_yield();
    return true;
  }

 private:
  void start_workers(int64_t workers) {
    try {
      for (; started_ < workers; ++started_) std::thread([this, id = started_ + 1] { work_loop(id); }).detach();
    } catch (const std::system_error &) {
      // The system refuses more threads: the running threads do the work.
    }
  }

  void wake_workers() {
    if (sleeping_.load() == 0) return;
    const std::lock_guard<std::mutex> lock(sleep_);
    condition_.notify_all();
  }

  void work() {
    const int64_t count = count_.load();
    for (;;) {
      const int64_t begin = next_.fetch_add(chunk_);
      if (begin >= count) return;
      const bool done = oneflow::run_protected([&] { body_(arguments_, begin, std::min(begin + chunk_, count)); });
      if (!done) next_.store(count);
    }
  }

  /// One worker; workers beyond the current thread count do not work.
  void work_loop(int64_t id) {
    for (;;) {
      await_job();
      active_.fetch_add(1);
      if (open_.load() && id < oneflow_rt_threads() && next_.load() < count_) {
        oneflow::current_run() = run_;
        work();
      }
      active_.fetch_sub(1);
    }
  }

  bool ready() const { return open_.load(std::memory_order_relaxed) && next_.load(std::memory_order_relaxed) < count_; }

  void await_job() {
    const auto start = std::chrono::steady_clock::now();
    while (!ready()) {
      for (int i = 0; i < 64 && !ready(); ++i) pause_briefly();
      if (std::chrono::steady_clock::now() - start > kSpin) return sleep();
    }
  }

  void sleep() {
    std::unique_lock<std::mutex> lock(sleep_);
    sleeping_.fetch_add(1);
    condition_.wait(lock, [this] { return open_.load() && next_.load() < count_.load(); });
    sleeping_.fetch_sub(1);
  }

  std::mutex busy_, sleep_;
  std::condition_variable condition_;
  std::atomic<int64_t> sleeping_{0}, active_{0}, next_{0}, count_{0};
  std::atomic<bool> open_{false};
  Body body_ = nullptr;
  void *arguments_ = nullptr;
  oneflow::Run *run_ = nullptr;
  int64_t chunk_ = 1, started_ = 0;
};

std::atomic<ThreadPool *> the_pool{nullptr};
thread_local bool in_parallel_loop = false;

// Threads do not survive a fork: the child starts its own pool.
void forget_pool() { the_pool.store(nullptr); }

ThreadPool &pool() {
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  (void)registered;
  ThreadPool *found = the_pool.load();
  if (found) return *found;
  ThreadPool *made = new ThreadPool;
  if (the_pool.compare_exchange_strong(found, made)) return *made;
  delete made;
  return *found;
}

}  // namespace

int64_t oneflow_rt_threads() {
  int64_t count = thread_count.load(std::memory_order_relaxed);
  if (count == 0) thread_count.store(count = default_threads());
  return count;
}

void oneflow_rt_set_threads(int64_t count) { thread_count.store(std::clamp<int64_t>(count, 1, kMaxThreads)); }

void oneflow_rt_parallel_for(Body body, void *arguments, int64_t count, int64_t grain) {
  if (count <= 0) return;
  if (count > grain && !in_parallel_loop && oneflow_rt_threads() > 1) {
    in_parallel_loop = true;
    const bool done = pool().run(body, arguments, count, std::max<int64_t>(grain, 1));
    in_parallel_loop = false;
    if (done && oneflow::current_run() && oneflow::current_run()->failed) oneflow::abort_run();
    if (done) return;
  }
  body(arguments, 0, count);
}
