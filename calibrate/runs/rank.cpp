// Runs one process of a real training run: builds network and group, makes warm-up steps and
// measured steps, and writes the report. The server's process runs serve_parameters() or
// serve_rounds() instead of steps.
#include <c10/core/DeviceGuard.h>

#include <fstream>
#include <stdexcept>

#include "probes/torch_errors.hpp"
#include "runs/strategy.hpp"
#include "runs/training_data.hpp"
#include "torch/backward_nodes.hpp"
#include "torch/memory_meter.hpp"
#include "torch/precision.hpp"

namespace lockstep {

void backward(at::Tensor& loss, Slowness& slowness) {
  if (!slowness.active()) {
    loss.backward();
    return;
  }
  const BackwardNodes nodes([&](std::int64_t) { slowness.pay(); });
  loss.backward();
  slowness.forgive();
}

namespace {

double bytes_of(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += static_cast<double>(tensor.nbytes());
  return sum;
}

std::unique_ptr<RealStrategy> make_strategy(RankContext& context) {
  switch (context.options.strategy) {
    case RunStrategy::ddp:
      return make_real_ddp(context);
    case RunStrategy::fsdp:
      return make_real_fsdp(context);
    case RunStrategy::ps_sync:
    case RunStrategy::ps_async:
    case RunStrategy::ps_ssp:
      return make_ps_worker(context);
    case RunStrategy::diloco:
      return make_diloco(context);
    case RunStrategy::fedavg:
      return make_fedavg_worker(context);
  }
  throw std::logic_error("no such strategy");
}

// Sum and sum of absolute values of all parameters. They must agree on all ranks after synchronous
// training.
std::vector<double> checksum(RealNetwork& network) {
  double sum = 0, magnitude = 0;
  for (const NetworkParameter& parameter : network.parameters()) {
    const at::Tensor values = parameter.tensor.detach().to(at::kDouble);
    sum += values.sum().item<double>();
    magnitude += values.abs().sum().item<double>();
  }
  return {sum, magnitude};
}

// Fills the times of a step. The strategy has marked the clock at the ends of forward and backward.
void end_step(RankStep& step, Clock& clock) {
  clock.mark();
  const std::vector<double> moments = clock.seconds();  // waits for the device
  step.end = host_seconds();
  step.forward = moments.at(1);
  step.backward = moments.at(2) - moments.at(1);
  step.optimizer = moments.at(3) - moments.at(2);
}

// Creates the empty result file, which shows readers of the run's folder that the measured steps
// begin. An unwritable file is thus reported before the work.
void begin_result(const std::string& path) {
  if (!std::ofstream(path)) throw std::runtime_error("cannot write " + path);
}

void train(const TrainOptions& options, const RankPlace& place, Group& group, RealNetwork& network,
           MemoryMeter& meter, TrainingData& data, RankReport& report) {
  const at::Device device(options.device);
  Slowness slowness([device] { synchronize(device); });
  Clock clock(device);
  RankContext context{options, group, network, slowness, clock};
  const std::unique_ptr<RealStrategy> strategy = make_strategy(context);
  group.barrier();
  // A parameter server tells its workers when to stop, because asynchronous workers may make
  // different numbers of steps.
  for (int i = 0; has_server(options.strategy) || i < options.warm_up + options.steps; ++i) {
    if (i == options.warm_up) {
      begin_result(place.result_file);
      meter.reset_peak();  // the peak must not include the construction
    }
    const Batch& batch = data.batch(i);
    RankStep step;
    step.begin = host_seconds();
    clock.start();
    slowness.begin(slowness_factor(options, report.rank, i));
    const bool more = strategy->train_step(batch, step);
    end_step(step, clock);
    if (i >= options.warm_up) report.steps.push_back(step);
    if (!more) break;
  }
  report.memory.optimizer_state = bytes_of(strategy->optimizer_state());
  const TensorMemory memory = meter.read();  // before checksum(), which allocates
  report.memory.peak = static_cast<double>(memory.peak);
  report.memory.reserved = static_cast<double>(memory.reserved);
  strategy->gather_everything();
  report.checksum = checksum(network);
}

void run(const TrainOptions& options, const RankPlace& place) {
  const std::shared_ptr<const ModelFile> model = load_model(options.model);
  const TrainingStep step = build_step(*model, options.step);
  const at::Device device(options.device);
  c10::OptionalDeviceGuard guard;
  if (!device.is_cpu()) guard.reset_device(device);
  flush_denormals();
  RankReport report;
  report.rank = place.rank;
  MemoryMeter meter(options.device);
  RealNetwork network(step, device, static_cast<std::uint64_t>(options.seed));
  GroupOptions group_options;
  group_options.rank = place.rank;
  group_options.size = options.ranks + (has_server(options.strategy) ? 1 : 0);
  group_options.store_file = place.store_file;
  group_options.own_address = place.own_address;
  Group group(group_options);
  if (place.rank == options.ranks) {
    begin_result(place.result_file);
    const bool in_rounds = options.strategy == RunStrategy::fedavg;
    (in_rounds ? serve_rounds : serve_parameters)(options, group, network, report);
    group.barrier();
  } else {
    TrainingData data(options, step, place.rank);
    train(options, place, group, network, meter, data, report);
    group.barrier();
    data.judge(network, report);  // may take longer than the timeout of other ranks
  }
  for (const NetworkParameter& parameter : network.parameters()) {
    report.memory.parameters += static_cast<double>(parameter.tensor.nbytes());
  }
  report.memory.buffers = bytes_of(network.buffers());
  std::ofstream file(place.result_file);
  file << to_json(report);
  if (!file.flush()) throw std::runtime_error("cannot write " + place.result_file);
}

}  // namespace

void run_rank(const TrainOptions& options, const RankPlace& place) {
  with_plain_errors([&] { run(options, place); });
}

}  // namespace lockstep
