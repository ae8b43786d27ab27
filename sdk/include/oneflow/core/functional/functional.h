// Calls of functions over tensors by name; see function_library.h.
#pragma once
#include "oneflow/core/functional/function_library.h"
