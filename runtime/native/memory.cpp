// Aligned memory with a small cache: every call allocates and frees results and temporaries of the same sizes, and
// fresh pages from the system cost more than the kernels that fill the pages.
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "run.h"
#include "runtime.h"

namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kCacheBytes = int64_t{256} << 20;
constexpr size_t kCacheBlocks = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

struct Block {
  void *base;
  int64_t size;
};

/// The 64 bytes before the memory that is returned.
struct Header {
  int64_t size;
};

struct Cache {
  std::mutex mutex;
  std::vector<Block> blocks;
  int64_t bytes = 0;
};

// The cache is never destroyed: arrays may be freed while the process ends. A fork waits for the mutex, so that the
// child gets a consistent cache and a free mutex.
Cache &cache();
void before_fork() { cache().mutex.lock(); }
void after_fork() { cache().mutex.unlock(); }

Cache &cache() {
  static Cache *const instance = new Cache;
  static const int registered = pthread_atfork(before_fork, after_fork, after_fork);
  (void)registered;
  return *instance;
}

int64_t size_class(int64_t bytes) {
  const int64_t step = bytes < 4096 ? 256 : bytes < kHugePage ? 4096 : 65536;
  return (bytes + step - 1) / step * step;
}

/// A cached block of at least `size` bytes that wastes at most a quarter, or null.
void *take_cached(int64_t size) {
  Cache &c = cache();
  const std::lock_guard<std::mutex> lock(c.mutex);
  for (size_t i = c.blocks.size(); i-- > 0;) {
    const Block block = c.blocks[i];
    if (block.size < size || block.size > size + size / 4) continue;
    c.blocks.erase(c.blocks.begin() + static_cast<std::ptrdiff_t>(i));
    c.bytes -= block.size;
    return block.base;
  }
  return nullptr;
}

void *allocate(int64_t size) {
  const int64_t alignment = size >= 2 * kHugePage ? kHugePage : kAlignment;
  const int64_t padded = (size + alignment - 1) / alignment * alignment;
  void *base = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(padded));
  if (base && alignment == kHugePage) madvise(base, static_cast<size_t>(padded), MADV_HUGEPAGE);
  if (base) static_cast<Header *>(base)->size = size;
  return base;
}

}  // namespace

int64_t oneflow_rt_times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

void *oneflow_rt_alloc(int64_t bytes) {
  if (bytes >= 0 && bytes <= kMaxBytes) {
    const int64_t size = size_class(bytes + kAlignment);
    void *base = take_cached(size);
    if (!base) base = allocate(size);
    if (base) return static_cast<char *>(base) + kAlignment;
  }
  if (!oneflow::current_run()) return nullptr;
  oneflow::current_run()->fail(3, 0, bytes, 0);
  oneflow::abort_run();
}

void oneflow_rt_free(void *pointer) {
  if (!pointer) return;
  void *base = static_cast<char *>(pointer) - kAlignment;
  const int64_t size = static_cast<Header *>(base)->size;
  std::vector<void *> evicted;
  {
    Cache &c = cache();
    const std::lock_guard<std::mutex> lock(c.mutex);
    c.blocks.push_back({base, size});
    c.bytes += size;
    while (c.bytes > kCacheBytes || c.blocks.size() > kCacheBlocks) {
      evicted.push_back(c.blocks.front().base);
      c.bytes -= c.blocks.front().size;
      c.blocks.erase(c.blocks.begin());
    }
  }
  for (void *old : evicted) std::free(old);
}

void oneflow_rt_copy(void *target, const void *source, int64_t bytes) {
  std::memcpy(target, source, static_cast<size_t>(bytes));
}

void *oneflow_rt_temporary(int64_t bytes) {
  void *pointer = oneflow_rt_alloc(bytes);
  oneflow::current_run()->add_temporary(pointer);
  return pointer;
}

void oneflow_rt_release(void *pointer) {
  oneflow::current_run()->remove_temporary(pointer);
  oneflow_rt_free(pointer);
}

// MLIR's names for the memory of `memref.alloc`.
extern "C" void *_mlir_memref_to_llvm_alloc(int64_t bytes) { return oneflow_rt_temporary(bytes); }
extern "C" void _mlir_memref_to_llvm_free(void *pointer) { oneflow_rt_release(pointer); }

namespace {

struct UnrankedMemRef {
  int64_t rank;
  struct Descriptor {
    char *allocated, *aligned;
    int64_t offset;
    int64_t sizes_and_strides[1];
  } *descriptor;
  const int64_t *sizes() const { return descriptor->sizes_and_strides; }
  const int64_t *strides() const { return descriptor->sizes_and_strides + rank; }
};

void copy(const UnrankedMemRef &from, const UnrankedMemRef &to, int64_t bytes, int64_t dim, char *source,
          char *target) {
  if (dim == from.rank) {
    std::memcpy(target, source, static_cast<size_t>(bytes));
    return;
  }
  const int64_t size = from.sizes()[dim], step = from.strides()[dim] * bytes, stride = to.strides()[dim] * bytes;
  if (dim == from.rank - 1 && step == bytes && stride == bytes) {
    std::memcpy(target, source, static_cast<size_t>(size * bytes));
    return;
  }
  for (int64_t i = 0; i < size; ++i) copy(from, to, bytes, dim + 1, source + i * step, target + i * stride);
}

}  // namespace

// MLIR's name for the copy of a strided memref; the arguments are unranked descriptors.
extern "C" void memrefCopy(int64_t bytes, const UnrankedMemRef *from, const UnrankedMemRef *to) {
  char *source = from->descriptor->aligned + from->descriptor->offset * bytes;
  char *target = to->descriptor->aligned + to->descriptor->offset * bytes;
  copy(*from, *to, bytes, 0, source, target);
}
