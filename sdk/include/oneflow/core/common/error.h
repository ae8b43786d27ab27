// The errors that functions return; see maybe.h.
#pragma once
#include "oneflow/core/common/maybe.h"
