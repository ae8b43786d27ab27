// Values of attributes: the kinds of attribute that an operator may have, and the C++ type of each kind.
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "oneflow/core/common/data_type.h"
#include "oneflow/core/common/maybe.h"
#include "oneflow/core/common/shape.h"

namespace oneflow {

/// Kinds of attribute, with OneFlow's numbers.
enum AttrType {
  kAtInt32 = 1,
  kAtInt64 = 2,
  kAtBool = 3,
  kAtFloat = 4,
  kAtDouble = 5,
  kAtString = 6,
  kAtShape = 7,
  kAtDataType = 8,
  kAtListInt32 = 9,
  kAtListInt64 = 10,
  kAtListFloat = 11,
  kAtListDataType = 12,
  kAtListShape = 13,
  kAtListString = 14,
};

/// The older name of AttrType.
using UserOpAttrType = AttrType;

/// The name of an attribute kind: "list_int32".
std::string AttrTypeName(AttrType type);

/// A value of any kind. Numbers are in `ints` or `floats` (a scalar is a list of one), strings in `texts`;
/// `lengths` are the ranks of the shapes of a list of shapes, whose sizes are concatenated in `ints`.
struct AttrValue {
  AttrType type;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<std::string> texts;
  std::vector<int64_t> lengths;
};

namespace detail {

template <AttrType kType, typename T>
struct IntAttr {
  static AttrType Type() { return kType; }
  static AttrValue Pack(const T &value) { return AttrValue{kType, {static_cast<int64_t>(value)}, {}, {}, {}}; }
  static T Unpack(const AttrValue &value) { return static_cast<T>(value.ints.at(0)); }
};

template <AttrType kType, typename T>
struct FloatAttr {
  static AttrType Type() { return kType; }
  static AttrValue Pack(const T &value) { return AttrValue{kType, {}, {static_cast<double>(value)}, {}, {}}; }
  static T Unpack(const AttrValue &value) { return static_cast<T>(value.floats.at(0)); }
};

template <AttrType kType, typename T>
struct IntListAttr {
  static AttrType Type() { return kType; }
  static AttrValue Pack(const std::vector<T> &value) {
    return AttrValue{kType, std::vector<int64_t>(value.begin(), value.end()), {}, {}, {}};
  }
  static std::vector<T> Unpack(const AttrValue &value) {
    std::vector<T> list;
    for (int64_t item : value.ints) list.push_back(static_cast<T>(item));
    return list;
  }
};

}  // namespace detail

/// The conversions of a C++ type to and from an attribute: Type(), Pack(value), Unpack(attribute).
template <typename T>
struct AttrTraits {
  static_assert(sizeof(T) == 0,
                "expected a type that attributes have: int32_t, int64_t, bool, float, double, "
                "std::string, Shape, DataType, or a std::vector of one of these");
};

template <>
struct AttrTraits<int32_t> : detail::IntAttr<kAtInt32, int32_t> {};
template <>
struct AttrTraits<int64_t> : detail::IntAttr<kAtInt64, int64_t> {};
template <>
struct AttrTraits<bool> : detail::IntAttr<kAtBool, bool> {};
template <>
struct AttrTraits<DataType> : detail::IntAttr<kAtDataType, DataType> {};
template <>
struct AttrTraits<float> : detail::FloatAttr<kAtFloat, float> {};
template <>
struct AttrTraits<double> : detail::FloatAttr<kAtDouble, double> {};
template <>
struct AttrTraits<std::vector<int32_t>> : detail::IntListAttr<kAtListInt32, int32_t> {};
template <>
struct AttrTraits<std::vector<int64_t>> : detail::IntListAttr<kAtListInt64, int64_t> {};
template <>
struct AttrTraits<std::vector<DataType>> : detail::IntListAttr<kAtListDataType, DataType> {};

template <>
struct AttrTraits<std::string> {
  static AttrType Type() { return kAtString; }
  static AttrValue Pack(const std::string &value) { return AttrValue{kAtString, {}, {}, {value}, {}}; }
  static std::string Unpack(const AttrValue &value) { return value.texts.at(0); }
};

template <>
struct AttrTraits<Shape> {
  static AttrType Type() { return kAtShape; }
  static AttrValue Pack(const Shape &value) { return AttrValue{kAtShape, value.dim_vec(), {}, {}, {}}; }
  static Shape Unpack(const AttrValue &value) { return Shape(value.ints); }
};

template <>
struct AttrTraits<std::vector<float>> {
  static AttrType Type() { return kAtListFloat; }
  static AttrValue Pack(const std::vector<float> &value) {
    return AttrValue{kAtListFloat, {}, std::vector<double>(value.begin(), value.end()), {}, {}};
  }
  static std::vector<float> Unpack(const AttrValue &value) {
    return std::vector<float>(value.floats.begin(), value.floats.end());
  }
};

template <>
struct AttrTraits<std::vector<std::string>> {
  static AttrType Type() { return kAtListString; }
  static AttrValue Pack(const std::vector<std::string> &value) { return AttrValue{kAtListString, {}, {}, value, {}}; }
  static std::vector<std::string> Unpack(const AttrValue &value) { return value.texts; }
};

template <>
struct AttrTraits<std::vector<Shape>> {
  static AttrType Type() { return kAtListShape; }
  static AttrValue Pack(const std::vector<Shape> &value) {
    AttrValue packed{kAtListShape, {}, {}, {}, {}};
    for (const Shape &shape : value) {
      packed.ints.insert(packed.ints.end(), shape.begin(), shape.end());
      packed.lengths.push_back(shape.NumAxes());
    }
    return packed;
  }
  static std::vector<Shape> Unpack(const AttrValue &value) {
    std::vector<Shape> list;
    auto next = value.ints.begin();
    for (int64_t rank : value.lengths) {
      list.emplace_back(DimVector(next, next + rank));
      next += rank;
    }
    return list;
  }
};

/// The value of the attribute `name` of `owner` as a T.
template <typename T>
T UnpackAttr(const AttrValue &value, const std::string &name, const std::string &owner) {
  if (value.type != AttrTraits<T>::Type()) {
    detail::Refuse(Error() << "the attribute " << name << " of " << owner << " is of the kind "
                           << AttrTypeName(value.type) << ", it was asked for as "
                           << AttrTypeName(AttrTraits<T>::Type()));
  }
  return AttrTraits<T>::Unpack(value);
}

}  // namespace oneflow
