// Whether gradients are recorded. A program under construction records all operators, so the mode changes nothing.
#pragma once

namespace oneflow {
namespace autograd {

struct GradMode {
  static bool is_enabled() { return true; }
};

}  // namespace autograd
}  // namespace oneflow
