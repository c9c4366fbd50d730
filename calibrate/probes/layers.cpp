// Divides the time of a training step among its layers without changing them. In forward, the clock
// is marked before each layer. In backward, every autograd node has the sequence number of its
// forward operator, so marks at the start of each node divide the backward pass among the layers.
// Nodes without a number (gradient accumulation) run directly after the node that produced the
// gradient, and belong to the same layer. So the layers' times add up exactly to the observed step.
//
// On a GPU the host issues work that the device executes later. Device times are measured while the
// queue is held (held_queue.hpp) until the host has issued some dozens of layers; the host's time
// is measured in a step without holding.
#include "probes/layers.hpp"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "launch/machine_state.hpp"
#include "probes/held_queue.hpp"
#include "probes/other_memory.hpp"
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

// Assigns each stretch of the backward pass, the time between two marks, to a layer.
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
  std::vector<std::uint64_t> starts_;  // by layer: sequence number when its forward began
  std::vector<int> owners_;            // layer of each stretch
};

// Share of the time in which this process waited for its core, although no other rank uses that
// core.
double disturbance_share(const CpuClocks& before, const CpuClocks& after) {
  const Disturbance found = disturbance(before, after, after.own_seconds - before.own_seconds);
  return std::max(found.queued, found.stolen);
}

// Measures stretches of a stream. On a GPU the queue is held before the first stretch, and at later
// places so that the host can get ahead. The time of holding belongs to no stretch.
class StretchClock {
 public:
  explicit StretchClock(at::Device device) : clock_(device) {}

  // Makes hold() effective. It is called only after memory has been measured, which must not
  // include the matrices that hold the queue.
  void can_hold(at::Device device) {
    if (!held_) held_.emplace(device);
  }
  bool holds() const { return held_.has_value(); }

  // Begins the first stretch. The host needs about `host_seconds` to issue the work that follows.
  void start(double host_seconds) {
    if (held_) held_->hold(spare * host_seconds);
    owners_.clear();
    stretches_ = 0;
    clock_.start();
  }
  // Ends a stretch and begins the next.
  void mark() {
    owners_.push_back(stretches_++);
    clock_.mark();
  }
  // Holds the queue within a stretch, or at its beginning.
  void hold(double host_seconds) {
    if (!held_) return;
    owners_.push_back(stretches_);
    clock_.mark();
    held_->hold(spare * host_seconds);
    owners_.push_back(nobody);
    clock_.mark();
  }
  // Seconds of each stretch that has ended.
  std::vector<double> seconds() {
    const std::vector<double> at = clock_.seconds();
    std::vector<double> result(static_cast<std::size_t>(stretches_), 0);
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] != nobody && owners_[i] < stretches_) {
        result[static_cast<std::size_t>(owners_[i])] += at[i + 1] - at[i];
      }
    }
    return result;
  }

 private:
  static constexpr int nobody = -1;
  // A factor of safety, because the host is sometimes slower, and marks also take time.
  static constexpr double spare = 2;

  Clock clock_;
  std::optional<HeldQueue> held_;
  std::vector<int> owners_;  // by interval between two marks: its stretch, or `nobody`
  int stretches_ = 0;
};

// A queue has room for about a thousand launches. So it is held anew after so many layers in
// forward and so many autograd nodes in backward, each of which makes a few launches.
constexpr std::size_t layers_per_hold = 32, nodes_per_hold = 64;

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

  // Host seconds of one step's passes. At their end, work on a CPU is complete, and work on a GPU
  // is issued. A pass of more than about a thousand launches contains waits for the device.
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
    sample.host_update = host_update_ = host_seconds() - update_begin;
    network_.drop_gradients();
    host_forward_ = sample.host_forward;
    host_backward_ = sample.host_backward;
    clock_.can_hold(device_);
  }

  // Measures a step without observation of layers, and the update. `sample` is null during warm-up.
  void plain(LayerSamples* sample) {
    ForwardHooks hooks;
    if (clock_.holds()) hooks.before = [this](std::size_t layer) { hold_before(layer); };
    clock_.start(host_of_layers());
    at::Tensor loss = network_.forward(batch_, hooks);
    clock_.mark();
    clock_.hold(host_of_nodes());
    if (clock_.holds()) {
      std::size_t node = 0;
      const BackwardNodes nodes([&](std::int64_t) { hold_before_node(node++); });
      backward(loss);
    } else {
      backward(loss);
    }
    clock_.mark();
    clock_.hold(host_update_);
    update();
    clock_.mark();
    const std::vector<double> stretches = clock_.seconds();
    network_.drop_gradients();
    if (sample == nullptr) return;
    sample->plain_forward = stretches[0];
    sample->plain_backward = stretches[1];
    sample->optimizer = stretches[2];
  }

  void observed(LayerSamples& sample) {
    const std::size_t layers = network_.step().layers.size();
    Owners owners(layers);
    ForwardHooks hooks;
    hooks.before = [&](std::size_t layer) {
      if (layer > 0) clock_.mark();
      hold_before(layer);
      owners.forward_begins();
    };
    clock_.start(host_of_layers());
    at::Tensor loss = network_.forward(batch_, hooks);
    clock_.mark();
    clock_.hold(host_of_nodes());
    std::size_t node = 0;
    {
      const BackwardNodes nodes([&](std::int64_t number) {
        owners.node_begins(number);
        clock_.mark();
        hold_before_node(node++);
      });
      backward(loss);
    }
    clock_.mark();
    const std::vector<double> stretches = clock_.seconds();
    nodes_ = node;
    update();
    network_.drop_gradients();
    sample.forward.assign(stretches.begin(), stretches.begin() + static_cast<long>(layers));
    sample.backward.assign(layers, 0);
    for (std::size_t i = 0; i < owners.of_stretches().size(); ++i) {
      sample.backward[static_cast<std::size_t>(owners.of_stretches()[i])] += stretches[layers + i];
    }
  }

  // Measures the memory of a step after the first one, when the optimizer's state exists.
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
    if (!device_.is_cpu()) {
      use.kept = std::max(0.0, static_cast<double>(before) - use.parameters - use.buffers -
                                   use.optimizer_state - use.batch);
      workspaces(meter, use);
    }
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

  // Runs one more step, and measures by layer the memory that is allocated and freed during the
  // layer.
  void workspaces(MemoryMeter& meter, MeasuredMemory& use) {
    const std::size_t layers = network_.step().layers.size();
    use.forward_workspace.assign(layers, 0);
    use.backward_workspace.assign(layers, 0);
    const auto end_stretch = [&](double& of_layer) {
      of_layer = std::max(of_layer, static_cast<double>(meter.read().passing));
      meter.reset_passing();
    };
    Owners owners(layers);
    ForwardHooks hooks;
    hooks.before = [&](std::size_t) {
      owners.forward_begins();
      meter.reset_passing();
    };
    hooks.after = [&](std::size_t layer, const at::Tensor&) {
      end_stretch(use.forward_workspace[layer]);
    };
    at::Tensor loss = network_.forward(batch_, hooks);
    const auto end_node = [&] {
      end_stretch(use.backward_workspace[static_cast<std::size_t>(owners.of_stretches().back())]);
    };
    meter.reset_passing();
    {
      const BackwardNodes nodes([&](std::int64_t number) {
        end_node();
        owners.node_begins(number);
      });
      backward(loss);
    }
    end_node();
    network_.drop_gradients();
  }

  // Host seconds to issue the work between two holds.
  double host_of_layers() const {
    const std::size_t layers = network_.step().layers.size();
    return host_forward_ * std::min(1.0, double(layers_per_hold) / double(layers));
  }
  double host_of_nodes() const {
    return host_backward_ * std::min(1.0, double(nodes_per_hold) / double(nodes_));
  }
  void hold_before(std::size_t layer) {
    if (layer > 0 && layer % layers_per_hold == 0) clock_.hold(host_of_layers());
  }
  void hold_before_node(std::size_t node) {
    if (node > 0 && node % nodes_per_hold == 0) clock_.hold(host_of_nodes());
  }

  at::Device device_;
  RealNetwork network_;
  std::vector<at::Tensor> parameters_;
  Batch batch_;
  Optimizer optimizer_;
  GradScaler scaler_;
  StretchClock clock_;
  std::size_t nodes_ = 1;  // nodes of a backward pass, known after the first observed step
  double host_forward_ = 0, host_backward_ = 0, host_update_ = 0;
};

}  // namespace

LayerProbeResult probe_layers(const TrainingStep& step, const LayerProbeOptions& options) {
  return with_plain_errors([&] {
    flush_denormals();  // like real runs
    const at::Device device(options.device);
    c10::OptionalDeviceGuard guard;
    if (!device.is_cpu()) guard.reset_device(device);
    MemoryMeter meter(options.device);
    Probe probe(step, options);
    for (int i = 0; i < std::max(1, options.warm_up); ++i) probe.plain(nullptr);
    LayerProbeResult result;
    result.memory = probe.memory(meter);
    const bool pauses = options.pause_seconds > 0;
    OtherMemory others;  // allocated after the network's memory has been measured
    if (pauses && device.is_cpu()) others.pass();
    do {
      LayerSamples sample;
      if (!device.is_cpu()) probe.issue(sample);
      CpuClocks before = read_cpu_clocks();
      const auto pause = [&] {
        if (!pauses) return;
        const CpuClocks from = read_cpu_clocks();
        if (device.is_cpu()) others.pass();
        const double left = from.wall_seconds + options.pause_seconds - host_seconds();
        if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
        const CpuClocks to = read_cpu_clocks();
        leave_out(before, from, to);
        sample.paused += to.wall_seconds - from.wall_seconds;
      };
      // Alternates the order, because the memory that a step finds depends on the step before.
      const bool plain_first = result.samples.size() % 2 == 0;
      for (const bool plain : {plain_first, !plain_first}) {
        pause();
        if (plain) {
          probe.plain(&sample);
        } else {
          probe.observed(sample);
        }
      }
      // Device times of a GPU do not depend on others that use the core.
      if (device.is_cpu()) sample.disturbance = disturbance_share(before, read_cpu_clocks());
      result.samples.push_back(std::move(sample));
    } while (!options.enough(result.samples));
    return result;
  });
}

}  // namespace lockstep
