// Sizes of CPU workspaces by operator, derived from measured steps. Convolutions dominate: oneDNN
// converts tensors to its own memory layouts and back.
#include "memory/host_workspace.hpp"

#include <algorithm>

namespace lockstep {
namespace {

// Channels padded to oneDNN's blocks. oneDNN computes with channels in blocks of 16, the last block
// padded, unless the tensors have channels last; then it uses their layout. Tensors in any other
// layout are copied before the call, and results after it.
double in_blocks(std::int64_t channels) {
  return static_cast<double>((channels + 15) / 16 * 16);
}

// The largest sum of converted tensors that live together during a convolution.
HostWorkspace convolution(const ConvGeometry& conv, double element_bytes) {
  const bool one_by_one = conv.kernel_h == 1 && conv.kernel_w == 1;
  if (one_by_one && conv.stride == 1 && conv.dilation == 1 && conv.images < 16) {
    return {};  // ATen's own matrix product, used with one thread (ConvParams::use_mkldnn)
  }
  const double weights = static_cast<double>(conv.channels_out) *
                         static_cast<double>(conv.channels_in / conv.groups) * conv.kernel_h *
                         conv.kernel_w * element_bytes;
  if (!conv.channels_last) {
    const auto images = static_cast<double>(conv.images) * element_bytes;
    // The first convolution reads the image in its own layout.
    const double x = conv.channels_in <= 3 ? 0
                                           : images * in_blocks(conv.channels_in) *
                                                 static_cast<double>(conv.height_in) *
                                                 static_cast<double>(conv.width_in);
    const double y = images * in_blocks(conv.channels_out) * static_cast<double>(conv.height_out) *
                     static_cast<double>(conv.width_out);
    // Forward converts input and weights, then converts the output back. Backward ends with the
    // gradient of the weights, for which input and output gradient are converted.
    return {std::max(x + weights, y), std::max(x + y, weights)};
  }
  // With channels last only weights are converted: first to channels last (depthwise weights have
  // that layout already), then to blocks. In the gradient of a depthwise convolution with a large
  // kernel, the blocks have 16 x 16 values per channel.
  const bool depthwise = conv.groups == conv.channels_in && conv.groups > 1;
  const double channels_last = depthwise ? 0 : weights;
  const bool padded = depthwise && std::max(conv.kernel_h, conv.kernel_w) > 3;
  const double blocks = padded ? 16 * 16 * weights : weights;
  return {channels_last + weights, channels_last + blocks + weights};
}

}  // namespace

HostWorkspace host_workspace(const Layer& layer, int element_bytes) {
  for (const Kernel& kernel : layer.forward) {
    if (kernel.kind == KernelKind::convolution) return convolution(kernel.conv, element_bytes);
  }
  return {0, layer.host_backward_workspace_bytes};
}

}  // namespace lockstep
