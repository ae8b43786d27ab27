// Several tensors: see tensor.h.
#pragma once
#include "oneflow/core/framework/tensor.h"
