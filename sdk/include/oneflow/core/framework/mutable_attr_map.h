// Attributes that functors set: see attr_map.h.
#pragma once
#include "oneflow/core/framework/attr_map.h"
