// The two 16-bit floating-point types: stored as bits, computed as float.
#pragma once
#include <cstdint>
#include <cstring>

namespace oneflow {

namespace detail {

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The nearest half, ties to even; larger values become infinity.
inline uint16_t HalfOf(float value) {
  const uint32_t bits = BitsOf(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (rest < 0x38800000u) {
    const float scaled = FloatOf(rest) + 0.5f;  // the last bits of the sum are the rounded bits of the subnormal half
    return static_cast<uint16_t>(sign | (BitsOf(scaled) - BitsOf(0.5f)));
  }
  return static_cast<uint16_t>(sign | ((rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13));
}

inline float FloatOfHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return FloatOf(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400u) return FloatOf(sign | ((rest << 13) + 0x38000000u));
  const float tiny = static_cast<float>(rest) * 5.9604644775390625e-8f;
  return sign ? -tiny : tiny;
}

/// The nearest bfloat16, ties to even.
inline uint16_t BrainOf(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace detail

#define ONEFLOW_DEFINE_FLOAT16_(Name, FromFloat, ToFloat)                        \
  struct Name {                                                                  \
    uint16_t bits;                                                               \
    Name() : bits(0) {}                                                          \
    Name(float value) : bits(FromFloat(value)) {}                                \
    operator float() const { return ToFloat; }                                   \
    Name &operator+=(float other) { return *this = Name(float(*this) + other); } \
    Name &operator-=(float other) { return *this = Name(float(*this) - other); } \
    Name &operator*=(float other) { return *this = Name(float(*this) * other); } \
    Name &operator/=(float other) { return *this = Name(float(*this) / other); } \
  }

ONEFLOW_DEFINE_FLOAT16_(float16, detail::HalfOf, detail::FloatOfHalf(bits));
ONEFLOW_DEFINE_FLOAT16_(bfloat16, detail::BrainOf, detail::FloatOf(static_cast<uint32_t>(bits) << 16));

#undef ONEFLOW_DEFINE_FLOAT16_

}  // namespace oneflow
