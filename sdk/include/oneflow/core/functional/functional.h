// Calls of functions over tensors by name; see function_library.h. Built-in operators are functions, too. The header
// that `oneflow-translate --gen-functional-api` writes is included if the include path has the header.
#pragma once
#include "oneflow/core/functional/function_library.h"
#include "oneflow/core/functional/functional_operators.h"
#if defined(__has_include)
#if __has_include("oneflow/core/functional/functional_api.yaml.h")
#include "oneflow/core/functional/functional_api.yaml.h"
#endif
#endif
