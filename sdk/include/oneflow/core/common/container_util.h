// Elements of containers that may be missing: `JUST(VectorAt(*in_grads, 0)) = ..`, `JUST(MapAt(map, key))`.
#pragma once
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "oneflow/core/common/hash_container.h"
#include "oneflow/core/common/maybe.h"

namespace oneflow {

/// The type of an element that is not changed: scalars by value, others by reference.
template <typename T>
using scalar_or_const_ref_t = typename std::conditional<std::is_scalar<T>::value, T, const T &>::type;

/// The value at `key`, or `other`.
template <typename Map, typename Key, typename U>
scalar_or_const_ref_t<typename Map::mapped_type> MapAt(const Map &map, const Key &key, const U &other) {
  const auto found = map.find(key);
  if (found == map.end()) return other;
  return found->second;
}

/// The value at `key`, or an error.
template <typename Map, typename Key>
Maybe<scalar_or_const_ref_t<typename Map::mapped_type>> MapAt(const Map &map, const Key &key) {
  const auto found = map.find(key);
  if (found == map.end()) return Error() << "expected a key of the map, got " << key;
  return found->second;
}
template <typename Map, typename Key>
Maybe<typename Map::mapped_type &> MapAt(Map &map, const Key &key) {
  const auto found = map.find(key);
  if (found == map.end()) return Error() << "expected a key of the map, got " << key;
  return found->second;
}

/// The element at `index`, or an error.
template <typename Vector>
Maybe<scalar_or_const_ref_t<typename Vector::value_type>> VectorAt(const Vector &vector,
                                                                   typename Vector::size_type index) {
  CHECK_LT_OR_RETURN(index, vector.size());
  return vector[index];
}
template <typename Vector>
Maybe<typename Vector::value_type &> VectorAt(Vector &vector, typename Vector::size_type index) {
  static_assert(!std::is_same<typename Vector::value_type, bool>::value, "elements of vector<bool> have no reference");
  CHECK_LT_OR_RETURN(index, vector.size());
  return vector[index];
}
inline Maybe<bool> VectorAt(const std::vector<bool> &vector, std::vector<bool>::size_type index) {
  CHECK_LT_OR_RETURN(index, vector.size());
  return static_cast<bool>(vector[index]);
}

/// The elements as text, separated by `delimiter`.
template <typename Container>
std::string Join(const Container &container, const std::string &delimiter) {
  std::ostringstream out;
  const char *between = "";
  for (const auto &element : container) {
    out << between << element;
    between = delimiter.c_str();
  }
  return out.str();
}

}  // namespace oneflow
