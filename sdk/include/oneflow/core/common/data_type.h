// Element types: OneFlow's numbers, C++ types, names and sizes in one table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "oneflow/core/common/float16.h"
#include "oneflow/core/common/maybe.h"

// Rows of (C++ type, enumerator, name). kChar stands for raw bytes.
#define ONEFLOW_FOR_DATA_TYPES(_)    \
  _(char, kChar, "char")             \
  _(float, kFloat, "float32")        \
  _(double, kDouble, "float64")      \
  _(int8_t, kInt8, "int8")           \
  _(int32_t, kInt32, "int32")        \
  _(int64_t, kInt64, "int64")        \
  _(uint8_t, kUInt8, "uint8")        \
  _(int16_t, kInt16, "int16")        \
  _(uint16_t, kUInt16, "uint16")     \
  _(uint32_t, kUInt32, "uint32")     \
  _(uint64_t, kUInt64, "uint64")     \
  _(float16, kFloat16, "float16")    \
  _(bfloat16, kBFloat16, "bfloat16") \
  _(bool, kBool, "bool")

namespace oneflow {

enum DataType {
  kInvalidDataType = 0,
  kChar = 1,
  kFloat = 2,
  kDouble = 3,
  kInt8 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kUInt8 = 7,
  kFloat16 = 9,
  kBFloat16 = 11,
  kBool = 12,
  kUInt16 = 13,
  kUInt32 = 14,
  kUInt64 = 15,
  kInt16 = 17,
};

/// The DataType of a C++ type: `GetDataType<float>::value`.
template <typename T>
struct GetDataType;

#define ONEFLOW_ROW_(type, code, name) \
  template <>                          \
  struct GetDataType<type> : std::integral_constant<DataType, code> {};
ONEFLOW_FOR_DATA_TYPES(ONEFLOW_ROW_)
#undef ONEFLOW_ROW_

/// The size of an element in bytes; 0 for an unknown type.
inline size_t GetSizeOfDataType(DataType data_type) {
  switch (data_type) {
#define ONEFLOW_ROW_(type, code, name) \
  case code:                           \
    return sizeof(type);
    ONEFLOW_FOR_DATA_TYPES(ONEFLOW_ROW_)
#undef ONEFLOW_ROW_
    default:
      return 0;
  }
}

/// The name of an element type: "float32".
inline std::string DataType_Name(DataType data_type) {
  switch (data_type) {
#define ONEFLOW_ROW_(type, code, name) \
  case code:                           \
    return name;
    ONEFLOW_FOR_DATA_TYPES(ONEFLOW_ROW_)
#undef ONEFLOW_ROW_
    default:
      return "invalid";
  }
}

inline bool IsFloatingDataType(DataType data_type) {
  return data_type == kFloat || data_type == kDouble || data_type == kFloat16 || data_type == kBFloat16;
}

}  // namespace oneflow
