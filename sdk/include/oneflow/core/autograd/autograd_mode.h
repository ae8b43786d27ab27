// Whether gradients are recorded. A program under construction has all operators; functors cannot leave any out.
#pragma once

namespace oneflow {
namespace autograd {

struct GradMode {
  static bool is_enabled() { return true; }
};

}  // namespace autograd
}  // namespace oneflow
