// Layers are told apart without touching them. Forward: a mark before each layer. Backward: every
// autograd node carries the sequence number it got when its forward ran, so a mark at the start of
// each node partitions the backward pass among the layers; nodes without a number (gradient
// accumulation) run right after the node that produced the gradient and count as its layer's. The
// layers' times therefore add up to the observed step exactly.
//
// On a GPU the host issues what the device does later. Device times are taken with the queue held
// until the host is ahead, pass by pass; what the host needs itself is timed in a step without
// that.
#include "probes/layers.hpp"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "launch/machine_state.hpp"
#include "probes/held_queue.hpp"
#include "probes/torch_errors.hpp"
#include "torch/backward_nodes.hpp"
#include "torch/clock.hpp"
#include "torch/grad_scaler.hpp"
#include "torch/memory_meter.hpp"
#include "torch/optimizer.hpp"
#include "torch/precision.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

namespace {

// Which layer's backward each stretch of the backward pass belongs to.
class Owners {
 public:
  explicit Owners(std::size_t layers) { owners_.push_back(static_cast<int>(layers) - 1); }

  void forward_begins() { starts_.push_back(at::sequence_number::peek()); }
  void node_begins(std::int64_t number) {
    if (number < 0) {
      owners_.push_back(owners_.back());
      return;
    }
    const auto after =
        std::upper_bound(starts_.begin(), starts_.end(), static_cast<std::uint64_t>(number));
    owners_.push_back(std::max(0, static_cast<int>(after - starts_.begin()) - 1));
  }
  const std::vector<int>& of_stretches() const { return owners_; }

 private:
  std::vector<std::uint64_t> starts_;  // sequence number when each layer's forward began
  std::vector<int> owners_;            // the first stretch, before any node, is the loss's
};

// Share of the time that this process, which has its core to itself, had to wait for it.
double disturbance_share(const CpuClocks& before, const CpuClocks& after) {
  const Disturbance found = disturbance(before, after, after.own_seconds - before.own_seconds);
  return std::max(found.queued, found.stolen);
}

class Probe {
 public:
  Probe(const TrainingStep& step, const LayerProbeOptions& options)
      : device_(options.device),
        network_(step, device_, options.seed),
        batch_(random_batch(step, device_, options.seed)),
        optimizer_(options.optimizer, network_),
        scaler_(step.precision, device_),
        clock_(device_) {
    for (const NetworkParameter& parameter : network_.parameters()) {
      parameters_.push_back(parameter.tensor);
    }
  }

  // Host seconds of one step's passes; what is on a CPU is done by then, what is on a GPU issued.
  void issue(LayerSamples& sample) {
    synchronize(device_);
    const double begin = host_seconds();
    at::Tensor loss = network_.forward(batch_);
    const double forward_end = host_seconds();
    synchronize(device_);
    const double backward_begin = host_seconds();
    backward(loss);
    sample.host_backward = host_seconds() - backward_begin;
    sample.host_forward = forward_end - begin;
    synchronize(device_);
    const double update_begin = host_seconds();
    update();
    host_update_ = host_seconds() - update_begin;
    network_.drop_gradients();
    host_forward_ = sample.host_forward;
    host_backward_ = sample.host_backward;
    if (!held_) held_.emplace(device_);
  }

  // Times the plain step and the update; `sample` may be null (warming up).
  void plain(LayerSamples* sample) {
    hold(host_forward_);
    clock_.start();
    at::Tensor loss = network_.forward(batch_);
    clock_.mark();
    hold(host_backward_);
    clock_.mark();
    backward(loss);
    clock_.mark();
    hold(host_update_);
    clock_.mark();
    update();
    clock_.mark();
    const std::vector<double> at = clock_.seconds();
    network_.drop_gradients();
    if (sample == nullptr) return;
    sample->plain_forward = at[1];
    sample->plain_backward = at[3] - at[2];
    sample->optimizer = at[5] - at[4];
  }

  void observed(LayerSamples& sample) {
    const std::size_t layers = network_.step().layers.size();
    Owners owners(layers);
    ForwardHooks hooks;
    hooks.before = [&](std::size_t layer) {
      if (layer > 0) clock_.mark();
      owners.forward_begins();
    };
    hold(host_forward_);
    clock_.start();
    at::Tensor loss = network_.forward(batch_, hooks);
    clock_.mark();
    hold(host_backward_);
    clock_.mark();
    {
      const BackwardNodes nodes([&](std::int64_t number) {
        owners.node_begins(number);
        clock_.mark();
      });
      backward(loss);
    }
    clock_.mark();
    const std::vector<double> at = clock_.seconds();
    update();
    network_.drop_gradients();
    sample.forward.assign(layers, 0);
    sample.backward.assign(layers, 0);
    for (std::size_t i = 0; i < layers; ++i) sample.forward[i] = at[i + 1] - at[i];
    const std::vector<int>& stretches = owners.of_stretches();
    for (std::size_t i = 0; i < stretches.size(); ++i) {
      sample.backward[static_cast<std::size_t>(stretches[i])] +=
          at[layers + i + 2] - at[layers + i + 1];
    }
  }

  // Of a step after the first: the optimizer's state exists.
  MeasuredMemory memory(MemoryMeter& meter) {
    MeasuredMemory use;
    const auto bytes = [](const at::Tensor& tensor) {
      return static_cast<double>(tensor.nbytes());
    };
    for (const NetworkParameter& parameter : network_.parameters()) {
      use.parameters += bytes(parameter.tensor);
    }
    for (const at::Tensor& buffer : network_.buffers()) use.buffers += bytes(buffer);
    for (const at::Tensor& state : optimizer_.state()) use.optimizer_state += bytes(state);
    use.batch = bytes(batch_.input) + bytes(batch_.target);
    const std::int64_t before = meter.read().live;
    meter.reset_peak();
    at::Tensor loss = network_.forward(batch_);
    use.after_forward = static_cast<double>(meter.read().live - before);
    backward(loss);
    update();
    network_.drop_gradients();
    use.peak = static_cast<double>(meter.read().peak);
    use.reserved = static_cast<double>(meter.read().reserved);
    return use;
  }

 private:
  void backward(at::Tensor& loss) {
    scaler_.scale(loss).backward();
    loss.reset();
  }
  void update() {
    if (scaler_.unscale(parameters_)) optimizer_.step();
  }
  // Half as long again: marks take the host a little, too.
  void hold(double host_seconds) {
    if (held_) held_->hold(1.5 * host_seconds);
  }

  at::Device device_;
  RealNetwork network_;
  std::vector<at::Tensor> parameters_;
  Batch batch_;
  Optimizer optimizer_;
  GradScaler scaler_;
  Clock clock_;
  // After the memory was measured, which its matrices would be part of.
  std::optional<HeldQueue> held_;
  double host_forward_ = 0, host_backward_ = 0, host_update_ = 0;
};

}  // namespace

LayerProbeResult probe_layers(const TrainingStep& step, const LayerProbeOptions& options) {
  return with_plain_errors([&] {
    flush_denormals();  // as real runs do
    const at::Device device(options.device);
    c10::OptionalDeviceGuard guard;
    if (!device.is_cpu()) guard.reset_device(device);
    MemoryMeter meter(options.device);
    Probe probe(step, options);
    for (int i = 0; i < std::max(1, options.warm_up); ++i) probe.plain(nullptr);
    LayerProbeResult result;
    result.memory = probe.memory(meter);
    do {
      LayerSamples sample;
      if (!device.is_cpu()) probe.issue(sample);
      const CpuClocks before = read_cpu_clocks();
      // In turn who is first: what a step finds in memory depends on the one before.
      const bool plain_first = result.samples.size() % 2 == 0;
      if (plain_first) probe.plain(&sample);
      probe.observed(sample);
      if (!plain_first) probe.plain(&sample);
      sample.disturbance = disturbance_share(before, read_cpu_clocks());
      result.samples.push_back(std::move(sample));
    } while (!options.enough(result.samples));
    return result;
  });
}

}  // namespace lockstep
