#include "guarded.h"

#include <cstring>
#include <random>

namespace oneflow {

namespace {

/// The guard bytes on either side of a buffer.
constexpr size_t kGuardBytes = size_t(1) << 20;

/// The bytes that are compared to detect an unwritten result: random bytes are equal once in 2 ** 64.
constexpr size_t kWordBytes = 8;

/// The guard bytes by address; a kernel that writes a constant changes some guard byte.
const std::vector<unsigned char> &Pattern() {
  static const std::vector<unsigned char> pattern = [] {
    std::minstd_rand random;
    std::vector<unsigned char> made(kGuardBytes);
    for (unsigned char &byte : made) byte = static_cast<unsigned char>(random() >> 8);
    return made;
  }();
  return pattern;
}

/// The number of bytes from `begin` on that are in one copy of the pattern.
size_t GuardBytes(size_t begin, size_t end) { return std::min(end - begin, kGuardBytes - begin % kGuardBytes); }

std::string Distance(size_t bytes, const char *where, const std::string &name, size_t size) {
  return std::to_string(bytes) + " bytes " + where + " of " + name + ", which has " + std::to_string(size) + " bytes";
}

}  // namespace

GuardedBuffers::GuardedBuffers(std::vector<std::pair<std::string, int64_t>> sizes) : sizes_(std::move(sizes)) {
  total_ = kGuardBytes;
  for (const auto &size : sizes_) {
    begins_.push_back(Aligned(total_));
    total_ = begins_.back() + static_cast<size_t>(size.second) + kGuardBytes;
  }
  memory_ = Allocate(static_cast<int64_t>(total_));
  for (size_t i = 0, bytes; i < total_; i += bytes) {
    bytes = GuardBytes(i, total_);
    std::memcpy(memory_.get() + i, Pattern().data() + i % kGuardBytes, bytes);
  }
}

size_t GuardedBuffers::FirstDamage(size_t begin, size_t end) const {
  for (size_t i = begin, bytes; i < end; i += bytes) {
    bytes = GuardBytes(i, end);
    const unsigned char *found = memory_.get() + i, *expected = Pattern().data() + i % kGuardBytes;
    if (std::memcmp(found, expected, bytes) == 0) continue;
    return i + static_cast<size_t>(std::mismatch(found, found + bytes, expected).first - found);
  }
  return end;
}

void GuardedBuffers::CheckGuards() const {
  for (size_t i = 0; i <= sizes_.size(); ++i) {
    const size_t begin = i == 0 ? 0 : End(i - 1), end = i == sizes_.size() ? total_ : begins_[i];
    const size_t position = FirstDamage(begin, end);
    if (position != end) Fail(position, i);
  }
}

void GuardedBuffers::CheckWritten(size_t number) const {
  size_t kept = 0, first = 0;
  for (size_t i = 0; i + kWordBytes <= bytes(number); i += kWordBytes) {
    unsigned char word[kWordBytes];
    for (size_t k = 0; k < kWordBytes; ++k) word[k] = Pattern()[(begins_[number] + i + k) % kGuardBytes];
    if (std::memcmp(data(number) + i, word, kWordBytes) != 0) continue;
    if (kept == 0) first = i;
    kept += kWordBytes;
  }
  if (kept == 0) return;
  throw CheckError("its kernel did not write all of " + name(number) + ": not " + std::to_string(kept) + " of its " +
                   std::to_string(bytes(number)) + " bytes, the first of them at byte " + std::to_string(first));
}

void GuardedBuffers::Fail(size_t position, size_t next) const {
  const bool has_next = next < sizes_.size(), has_last = next > 0;
  const size_t before = has_next ? begins_[next] - position : total_, after = has_last ? position - End(next - 1) : total_;
  throw CheckError("its kernel wrote out of bounds: " +
                   (before < after ? Distance(before, "before the start", name(next), bytes(next))
                                   : Distance(after, "after the end", name(next - 1), bytes(next - 1))));
}

}  // namespace oneflow
