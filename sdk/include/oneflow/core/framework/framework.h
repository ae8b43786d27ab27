// The one header that user operators include.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oneflow/core/common/data_type.h"
#include "oneflow/core/common/maybe.h"
#include "oneflow/core/common/shape.h"
#include "oneflow/core/common/util.h"
#include "oneflow/core/device/cuda_util.h"
#include "oneflow/core/framework/attr_value.h"
#include "oneflow/core/framework/infer_context.h"
#include "oneflow/core/framework/op_kernel.h"
#include "oneflow/core/framework/registration.h"
