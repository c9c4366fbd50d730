// Stand-in for a header that Debian's libtorch-dev 1.13 does not ship although c10d/reducer.hpp
// includes it. DDP needs these names only to compile; distributed autograd (RPC) is not used. On
// the include path only where the real header is missing.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>

namespace torch::distributed::autograd {

class DistAutogradContext {
 public:
  using GradCallback = std::function<bool(at::Tensor&)>;
  void runGradCallbackForVariable(const at::Tensor&, GradCallback&&) {}
};
using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
