// Does a real step need the memory that the simulator predicts? The test runs real LibTorch
// networks of the seed models on the CPU. The cases with larger images, which give the figures of
// docs/memory.md, take minutes:
//   memory_meter_tests --gtest_also_run_disabled_tests --gtest_filter='*Photographs*'
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "memory/liveness.hpp"
#include "memory/step_memory.hpp"
#include "torch/memory_meter.hpp"
#include "torch/optimizer.hpp"
#include "torch/real_network.hpp"
#include "workload/model.hpp"

namespace lockstep::memory_test {
namespace {

struct MemoryCase {
  const char* model;
  int batch, image;
};

TrainingStep step_of(const MemoryCase& row) {
  StepOptions options;
  options.samples = row.batch;
  if (row.image > 0) options.image = {3, row.image, row.image};
  return build_step(*load_model(row.model), options);
}

Device big_cpu() {
  Device device;
  device.architecture = Architecture::cpu;
  device.memory_bytes = 1e12;
  return device;
}

// Bytes of tensors. `peak` and `live_before` exclude permanent memory (parameters, buffers,
// optimizer state and the batch), so that a large model cannot hide an error.
struct StepBytes {
  double parameters = 0, buffers = 0, optimizer_state = 0, batch = 0;
  double after_forward = 0, peak = 0;
  std::vector<double> live_before;  // before each layer's forward
  double always() const { return parameters + buffers + optimizer_state + batch; }
};

StepBytes measure(const TrainingStep& step) {
  // as in calibration and real runs; the number decides which library computes 1 x 1 convolutions
  at::set_num_threads(1);
  MemoryMeter meter;
  RealNetwork network(step, at::kCPU, 1);
  OptimizerSpec spec;
  spec.learning_rate = 1e-3;
  spec.momentum = 0.9;
  Optimizer optimizer(spec, network);
  const Batch batch = random_batch(step, at::kCPU, 1);
  StepBytes bytes;
  const auto size = [](const at::Tensor& tensor) { return static_cast<double>(tensor.nbytes()); };
  for (int i = 0; i < 2; ++i) {  // the optimizer's state is allocated in the first step
    const std::int64_t base = meter.read().live;
    meter.reset_peak();
    ForwardHooks hooks;
    bytes.live_before.clear();
    hooks.before = [&](std::size_t) {
      bytes.live_before.push_back(static_cast<double>(meter.read().live - base));
    };
    at::Tensor loss = network.forward(batch, hooks);
    bytes.after_forward = static_cast<double>(meter.read().live - base);
    loss.backward();
    loss.reset();
    optimizer.step();
    network.drop_gradients();
    bytes.peak = static_cast<double>(meter.read().peak - base);
  }
  for (const NetworkParameter& parameter : network.parameters()) {
    bytes.parameters += size(parameter.tensor);
  }
  for (const at::Tensor& buffer : network.buffers()) bytes.buffers += size(buffer);
  for (const at::Tensor& state : optimizer.state()) bytes.optimizer_state += size(state);
  bytes.batch = size(batch.input) + size(batch.target);
  return bytes;
}

StepBytes predict(const TrainingStep& step, std::string& moment) {
  MemoryPlan plan;
  plan.optimizer.state_bytes_per_element = 4;  // momentum
  const StepMemory memory = step_memory(step, plan, big_cpu());
  const auto of = [&](const char* kind) {
    const auto found = memory.at_peak.find(kind);
    return found == memory.at_peak.end() ? 0.0 : found->second;
  };
  StepBytes bytes;
  bytes.parameters = of("parameters");
  bytes.buffers = of("buffers");
  bytes.optimizer_state = of("optimizer state");
  bytes.batch = of("inputs");
  bytes.after_forward = memory.after_forward;
  bytes.peak = memory.allocated - bytes.always();
  moment = memory.moment;
  const Liveness life = find_liveness(step, true);
  double live = 0;
  for (int i = 0; i < static_cast<int>(step.layers.size()); ++i) {
    bytes.live_before.push_back(live);
    for (const int t : life.born_in_forward.of(i)) {
      live += static_cast<double>(life.tensors[static_cast<std::size_t>(t)].bytes);
    }
    for (const int t : life.die_after_forward.of(i)) {
      live -= static_cast<double>(life.tensors[static_cast<std::size_t>(t)].bytes);
    }
  }
  return bytes;
}

// Up to LibTorch 1.13 a mean keeps its input (2.x keeps its shape). A pooling to 1 x 1 is such a
// mean.
double kept_by_mean([[maybe_unused]] const TrainingStep& step) {
#if TORCH_VERSION_MAJOR >= 2
  return 0;
#else
  double bytes = 0;
  for (const Layer& pool : step.layers) {
    if (pool.kind != "adaptive_avg_pool" || attribute(pool, "out", 1) != 1) continue;
    const Layer& input = step.layers[static_cast<std::size_t>(pool.inputs.front())];
    bool saved = false;
    for (const Layer& layer : step.layers) {
      for (const SavedTensor& tensor : layer.saved) {
        saved = saved || tensor.storage == input.output_storage;
      }
    }
    if (!saved) bytes += input.output_bytes;
  }
  return bytes;
#endif
}

// The first layers whose forward leaves another amount of memory than predicted.
std::string differing_layers(const TrainingStep& step, const StepBytes& measured,
                             const StepBytes& predicted) {
  std::string text;
  double before = 0;
  int count = 0;
  for (std::size_t i = 1; i < step.layers.size() && count < 20; ++i) {
    const double difference = measured.live_before[i] - predicted.live_before[i];
    if (std::abs(difference - before) > 8) {
      const Layer& layer = step.layers[i - 1];
      text +=
          fmt::format("  {} ({}): {:+.0f} bytes\n", layer.name, layer.kind, difference - before);
      ++count;
    }
    before = difference;
  }
  return text;
}

class RealMemory : public testing::TestWithParam<MemoryCase> {};

TEST_P(RealMemory, IsThePredictedOne) {
  // docs/memory.md: the workspaces of oneDNN's depthwise convolutions were measured on AVX-512.
  if (GetParam().model == std::string("convnext_large") && !__builtin_cpu_supports("avx512f")) {
    GTEST_SKIP() << "this CPU has no AVX-512: oneDNN takes other layouts";
  }
  const MemoryCase& row = GetParam();
  const TrainingStep step = step_of(row);
  const StepBytes measured = measure(step);
  std::string moment;
  StepBytes predicted = predict(step, moment);
  predicted.after_forward += kept_by_mean(step);
  const double whole = measured.peak + measured.always();
  const double whole_predicted = predicted.peak + predicted.always();
  fmt::print(
      "{} batch {} image {}: after forward measured {:.0f} predicted {:.0f} bytes ({:+.0f}); "
      "peak measured {:.2f} predicted {:.2f} MB ({:+.2f} %), beyond what is always there {:.2f} "
      "{:.2f} MB ({:+.2f} %), predicted in {}\n",
      row.model, row.batch, row.image, measured.after_forward, predicted.after_forward,
      predicted.after_forward - measured.after_forward, whole / 1e6, whole_predicted / 1e6,
      100 * (whole_predicted / whole - 1), measured.peak / 1e6, predicted.peak / 1e6,
      100 * (predicted.peak / measured.peak - 1), moment);
  EXPECT_EQ(predicted.parameters, measured.parameters);
  // The simulator's buffers are a third of a batch norm's each, rounded to bytes.
  EXPECT_NEAR(predicted.buffers, measured.buffers, static_cast<double>(step.layers.size()));
  EXPECT_EQ(predicted.optimizer_state, measured.optimizer_state);
  EXPECT_EQ(predicted.batch, measured.batch);
  // Two numbers come on top that the simulator leaves out: the loss and the sum of its weights.
  EXPECT_NEAR(predicted.after_forward, measured.after_forward, 8)
      << differing_layers(step, measured, predicted);
  EXPECT_NEAR(whole_predicted, whole, 0.02 * whole);
  EXPECT_NEAR(predicted.peak, measured.peak, 0.02 * measured.peak);
}

std::string case_name(const testing::TestParamInfo<MemoryCase>& info) {
  return fmt::format("{}_batch_{}_image_{}", info.param.model, info.param.batch, info.param.image);
}

INSTANTIATE_TEST_SUITE_P(
    Icons, RealMemory,
    testing::Values(MemoryCase{"vgg16", 2, 64}, MemoryCase{"vgg16", 4, 64},
                    MemoryCase{"resnet50", 2, 64}, MemoryCase{"resnet50", 4, 64},
                    MemoryCase{"densenet121", 2, 64}, MemoryCase{"densenet121", 4, 64},
                    MemoryCase{"efficientnet_v2_l", 2, 64}, MemoryCase{"efficientnet_v2_l", 4, 64},
                    MemoryCase{"convnext_large", 2, 64}, MemoryCase{"convnext_large", 4, 64},
                    MemoryCase{"lenet5", 32, 0}),  // the channels fill no whole block
    case_name);

INSTANTIATE_TEST_SUITE_P(DISABLED_Photographs, RealMemory,
                         testing::Values(MemoryCase{"vgg16", 8, 224},
                                         MemoryCase{"resnet50", 8, 224},
                                         MemoryCase{"densenet121", 8, 224},
                                         MemoryCase{"efficientnet_v2_l", 2, 224},
                                         MemoryCase{"convnext_large", 2, 224}),
                         case_name);

// One of Gloo's threads may drop the last reference to a tensor, which must be noticed.
TEST(Meter, CountsUntilTheTensorIsFreedOnWhateverThread) {
  at::Tensor before = at::zeros({1000});
  MemoryMeter meter;
  at::Tensor here = at::zeros({256}), there = at::zeros({512});
  EXPECT_EQ(meter.read().live, 4 * (256 + 512));
  std::thread([&] {
    there.reset();
    before.reset();
    here = at::cat({here, at::zeros({1024})});  // allocations of other threads are not counted
  }).join();
  EXPECT_EQ(meter.read().live, 0);
  EXPECT_EQ(meter.read().peak, 4 * (256 + 512));
  meter.reset_peak();
  EXPECT_EQ(meter.read().peak, 0);
}

TEST(Meter, TensorsMayOutliveIt) {
  at::Tensor tensor;
  {
    MemoryMeter first;
    tensor = at::zeros({256});
    EXPECT_EQ(first.read().live, 4 * 256);
  }
  MemoryMeter second;
  tensor.reset();
  EXPECT_EQ(second.read().live, 0);
}

}  // namespace
}  // namespace lockstep::memory_test
