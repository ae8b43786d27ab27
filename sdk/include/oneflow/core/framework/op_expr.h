// Operators that functors call: see op_builder.h.
#pragma once
#include "oneflow/core/framework/op_builder.h"
