// Helpers of the tests of meshes: a step's products and exchanges in the order in which a rank runs
// them, to be compared with golden files.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "build.hpp"
#include "core/data.hpp"

namespace lockstep {

using Lines = std::vector<std::string>;

// The network of the oracle (world.py): a Llama with fused norms and a loss on fp32 logits.
inline StepOptions oracle_options() {
  StepOptions options;
  options.parameters = {{"layers", 2},     {"hidden", 1024},  {"heads", 16},
                        {"kv_heads", 4},   {"mlp", 2816},     {"vocabulary", 32000},
                        {"fused_norm", 1}, {"upcast_loss", 1}};
  options.sequence = 1024;
  return options;
}

// Writes one line for each product, attention and exchange, as the golden files do.
class StepLines {
 public:
  explicit StepLines(const TrainingStep& step, bool names_layers = true)
      : step_(step), names_layers_(names_layers) {}

  Lines write() {
    for (const Layer& layer : step_.layers) forward(layer, "forward", false);
    for (std::size_t i = step_.layers.size(); i-- > 0;) {
      recompute_up_to(i);
      backward(i);
    }
    return std::move(lines_);
  }

 private:
  void exchange(const std::string& pass, const AxisExchange& exchange) {
    static constexpr std::array kinds{"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                      "shift"};
    static constexpr std::array axes{"pp", "dp", "cp", "tp", "ep"};
    lines_.push_back(fmt::format("{} {} {} {:.0f}", pass,
                                 kinds[static_cast<std::size_t>(exchange.kind)],
                                 axes[static_cast<std::size_t>(exchange.axis)], exchange.bytes));
  }
  void kernel(const std::string& pass, const Layer& layer, const Kernel& kernel) {
    if (kernel.kind == KernelKind::attention) {
      lines_.push_back(fmt::format("{} attention {} {} {}", pass, kernel.batch / step_.samples,
                                   kernel.m, kernel.n));
    } else if (kernel.kind == KernelKind::gemm) {
      std::array sizes{kernel.m, kernel.n, kernel.k};
      std::sort(sizes.begin(), sizes.end());
      lines_.push_back(fmt::format("{} matmul {}{}", pass, names_layers_ ? layer.name + " " : "",
                                   fmt::join(sizes, " ")));
    }
  }
  void forward(const Layer& layer, const std::string& pass, bool again) {
    if (again && !layer.checkpointed) return;
    if (!again || !layer.keeps_output) {
      for (const AxisExchange& item : layer.forward_exchanges) exchange(pass, item);
    }
    for (const Kernel& item : layer.forward) {
      if (!again || runs_again(layer, item)) kernel(pass, layer, item);
    }
  }
  // Recomputes all checkpointed layers of a block before the backward of the block's last layer.
  void recompute_up_to(std::size_t last) {
    const auto together = [&](std::size_t i) {
      return step_.layers[i].checkpointed && step_.layers[i].block == step_.layers[last].block;
    };
    if (!step_.layers[last].checkpointed) return;
    if (last + 1 < step_.layers.size() && together(last + 1)) return;
    std::size_t first = last;
    while (first > 0 && together(first - 1)) --first;
    for (std::size_t i = first; i <= last; ++i) forward(step_.layers[i], "recompute", true);
  }
  void backward(std::size_t index) {
    const Layer& layer = step_.layers[index];
    for (const AxisExchange& item : layer.backward_exchanges) exchange("backward", item);
    for (const auto& [reader, item] : waiting_[static_cast<int>(index)]) {
      kernel("backward", *reader, *item);
    }
    // The weight gradient of such a product runs beside the exchange of its input's gradient, so
    // its line comes later.
    std::vector<std::pair<const Layer*, const Kernel*>>* later = nullptr;
    for (const int input : layer.inputs) {
      if (input < 0 || step_.layers[input].backward_exchanges.empty()) continue;
      const AxisExchange& next = step_.layers[input].backward_exchanges.front();
      if (next.beside == Beside::weight_gradient) later = &waiting_[input];
    }
    for (const Kernel& item : layer.backward) {
      if (later != nullptr && item.pass == Pass::weight_gradient) {
        later->emplace_back(&layer, &item);
      } else {
        kernel("backward", layer, item);
      }
    }
  }

  const TrainingStep& step_;
  const bool names_layers_;
  Lines lines_;
  std::map<int, std::vector<std::pair<const Layer*, const Kernel*>>> waiting_;
};

// The lines of a golden file (tests/workload/golden) below the headline.
inline Lines golden_lines(const std::string& file, const std::string& headline) {
  std::ifstream in(data_folder("") + "/tests/workload/golden/" + file);
  Lines lines;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) {
      inside = line == "# " + headline;
    } else if (inside) {
      lines.push_back(line);
    }
  }
  EXPECT_FALSE(lines.empty()) << headline;
  return lines;
}

}  // namespace lockstep
