// DistributedDataParallel as PyTorch's reducer runs it. Reads top to bottom like one training step:
// input, buffer broadcast, forward, backward with one all-reduce per bucket, copies back,
// optimizer. Numbers in brackets: facts of docs/strategies.md.
#include "strategies/ddp/ddp.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "memory/step_memory.hpp"
#include "strategies/common/network.hpp"
#include "strategies/common/run_steps.hpp"
#include "strategies/common/step_parts.hpp"
#include "strategies/ddp/hooks.hpp"

namespace lockstep {

namespace {

// A run of backward layers up to the next moment at which a bucket is full.
struct Segment {
  QueuedWork backward;
  QueuedWork copies;          // gradients into their buckets, division fused [7]
  std::vector<int> launches;  // buckets that are reduced now, in order [8]
};

struct PlannedBucket {
  HookPlan hook;        // what stands in for the plain all-reduce
  QueuedWork copy_out;  // back into .grad [12]
};

struct Schedule {
  std::vector<PlannedBucket> buckets;
  std::vector<Segment> segments;
};

DdpOptions effective_options(const Job& job, DdpOptions options) {
  if (!keeps_one_buffer(job, options)) return options;
  constexpr double all = 1e18;
  options.bucket_bytes = options.first_bucket_bytes = all;
  options.gradient_as_bucket_view = true;
  return options;
}

BucketPlan job_buckets(const Job& job, const DdpOptions& options) {
  return plan_buckets(gradient_tensors(job.step, ddp_gradient_bytes(options, job.step.precision)),
                      options);
}

class DdpRun {
 public:
  DdpRun(const Job& job, const DdpOptions& options);
  StrategyResult run();

 private:
  Schedule schedule(const std::vector<Bucket>& buckets, bool overlap);
  Program one_step(int step);
  void broadcast_buffers();
  void backward(const Schedule& schedule);
  Event reduce(const PlannedBucket& bucket);
  Event collective(const PricedTransfer& transfer, const Event& after);
  void copies(const QueuedWork& work);
  Program optimizer();

  const Job& job_;
  const DdpOptions options_;
  const bool distributed_;
  const CommGroup group_;
  const StepCosts costs_;
  const RankSpeeds speeds_;
  const std::vector<GradientTensor> tensors_;
  const BucketPlan plan_;
  World world_;
  JobNetwork network_;
  RankGroup& ranks_;
  Communicator& communicator_;
  StreamId hook_stream_;
  InputPipeline input_;

  // Of the step that is being issued, and what every step has of it.
  ProvenanceTally provenance_, always_;
  QueuedWork forward_, backward_, optimizer_work_, clipping_;
  std::vector<QueuedWork> adding_backward_;  // by layer; adds to the gradients of earlier ones
  QueuedWork adding_;                        // all of it
  Schedule first_, later_;
  PricedTransfer buffers_, counters_, bitmap_, indices_;
  QueuedWork buffer_copies_;
  double elements_ = 0;
};

DdpRun::DdpRun(const Job& job, const DdpOptions& options)
    : job_(job),
      options_(effective_options(job, options)),
      distributed_(job.gpus > 1),
      group_(group_of(job.machine, job.gpus)),
      costs_(step_costs(job)),
      speeds_(job.stragglers, job.gpus, job.seed),
      tensors_(gradient_tensors(job.step, ddp_gradient_bytes(options_, job.step.precision))),
      plan_(plan_buckets(tensors_, options_)),
      world_({.network = job.network, .engine = choose_engine(job, false, 0, false)}),
      network_(world_, job),
      ranks_(world_.add_ranks({.name = "ddp",
                               .ranks_per_lane = speeds_.ranks_per_lane(),
                               .slowdown = interference_of(job, costs_),
                               .one_thread = one_thread(job)})),
      communicator_(ranks_.add_communicator("gradients")),
      hook_stream_(ranks_.add_stream("comm hook")),
      input_(job, ranks_, network_) {
  double buffer_bytes = 0;
  int buffers = 0;
  int norms = 0;  // each with a counter of batches beside its statistics
  for (std::size_t i = 0; i < costs_.layers.size(); ++i) {
    const LayerCost& layer = costs_.layers[i];
    forward_ = append(forward_, layer.forward);
    backward_ = append(layer.backward, backward_);
    always_.add(layer.forward, job.accumulation);
    always_.add(layer.backward, job.accumulation);
    buffer_bytes += job.step.layers[i].buffer_bytes;
    buffers += job.step.layers[i].buffers;
    norms += job.step.layers[i].kind == "batch_norm" ? 1 : 0;
  }
  for (const GradientTensor& tensor : tensors_) elements_ += tensor.elements;
  const int count = static_cast<int>(tensors_.size());
  for (const LayerCost& layer : costs_.layers) adding_backward_.push_back(layer.backward);
  for (const GradientTensor& tensor : tensors_) {
    QueuedWork& backward = adding_backward_[static_cast<std::size_t>(tensor.layer)];
    const QueuedWork sum = job.costs->stream(3 * tensor.elements * tensor.element_bytes, 1);
    backward = append(backward, sum);
    always_.add(sum, job.accumulation - 1);
  }
  for (const QueuedWork& layer : adding_backward_) adding_ = append(layer, adding_);
  optimizer_work_ = job.costs->optimizer(job.optimizer, job.step.precision, elements_, count);
  if (job.gradient_clipping > 0) {
    clipping_ = job.costs->stream(clipping_bytes(job.step.precision, elements_),
                                  clipping_launches(elements_, count));
  }
  always_.add(optimizer_work_);
  always_.add(input_.copy(), job.accumulation);
  if (!distributed_) return;
  if (options_.broadcast_buffers && buffers > 0) {
    // One broadcast for each type: the statistics, then the int64 counters (seen in PyTorch 2.15,
    // calibrate/oracle).
    const double counter_bytes = 8.0 * norms;
    buffers_ = network_.collective(group_, Collective::broadcast, buffer_bytes - counter_bytes);
    if (norms > 0) counters_ = network_.collective(group_, Collective::broadcast, counter_bytes);
    // Flattened before, split again after.
    buffer_copies_ = job.costs->stream(2 * buffer_bytes, buffers);
  }
  if (options_.find_unused_parameters && !options_.static_graph) {
    bitmap_ = network_.collective(group_, Collective::all_reduce, 4.0 * count);  // [19]
  } else {
    indices_ = network_.collective(group_, Collective::broadcast, 4.0 * count);  // [3]
  }
  first_ = schedule(plan_.first, options_.overlap && !options_.static_graph);
  later_ = schedule(plan_.later, options_.overlap);
}

// Where backward is cut, and which buckets leave at each cut. Without overlap everything leaves at
// the end.
Schedule DdpRun::schedule(const std::vector<Bucket>& buckets, bool overlap) {
  Schedule result;
  for (const Bucket& bucket : buckets) {
    const auto all_reduce = [&](double bytes) {
      return network_.collective(group_, Collective::all_reduce, bytes);
    };
    PlannedBucket planned;
    planned.hook = plan_hook(options_, bucket, tensors_, *job_.costs, all_reduce);
    if (!options_.gradient_as_bucket_view) {
      planned.copy_out =
          job_.costs->stream(2 * bucket.bytes, static_cast<int>(bucket.tensors.size()));
    }
    result.buckets.push_back(std::move(planned));
  }

  Segment segment;
  double copied = 0;
  int copies = 0;
  std::size_t next = 0;  // bucket to launch
  for (int layer = static_cast<int>(costs_.layers.size()) - 1; layer >= 0; --layer) {
    const auto at = static_cast<std::size_t>(layer);
    segment.backward = append(segment.backward, job_.accumulation > 1 ? adding_backward_[at]
                                                                      : costs_.layers[at].backward);
    for (const GradientTensor& tensor : tensors_) {
      if (tensor.layer != layer) continue;
      copied += 2 * tensor.elements * tensor.element_bytes;
      copies = keeps_one_buffer(job_, options_) ? 1 : copies + 1;
    }
    while (next < buckets.size() && layer <= buckets[next].ready_after && (overlap || layer == 0)) {
      segment.launches.push_back(static_cast<int>(next++));
    }
    if (segment.launches.empty() && layer > 0) continue;
    if (copies > 0) segment.copies = job_.costs->stream(copied, copies);
    result.segments.push_back(std::exchange(segment, {}));
    copied = 0;
    copies = 0;
  }
  return result;
}

Program DdpRun::one_step(int step) {
  provenance_ = always_;
  for (int micro = 0; micro < job_.accumulation; ++micro) {
    co_await input_.next_batch();
    // Not in the forward that follows a no_sync one [15].
    if (distributed_ && micro == 0) broadcast_buffers();
    ranks_.compute(Phase::forward, forward_);
    const bool synchronised = micro + 1 == job_.accumulation;
    if (distributed_ && synchronised) {
      backward(step == 0 ? first_ : later_);
    } else {
      ranks_.compute(Phase::backward, micro == 0 ? backward_ : adding_);  // alone, or no_sync [17]
    }
  }
  co_await optimizer();
  if (step == 0 && indices_.seconds > 0) {
    // Buckets are rebuilt: rank 0 tells the others how, and everybody looks [3].
    const Event order = collective(indices_, ranks_.record());
    const Event sizes = collective(indices_, order);
    ranks_.wait(sizes);
    co_await ranks_.host_wait(sizes);
  }
}

Event DdpRun::collective(const PricedTransfer& transfer, const Event& after) {
  provenance_.add(transfer);
  return issue_collective(ranks_, communicator_, transfer.spec, after);
}

void DdpRun::copies(const QueuedWork& work) {
  if (work.busy <= 0) return;
  provenance_.add(work);
  ranks_.compute(Phase::copies, work);
}

void DdpRun::broadcast_buffers() {
  if (buffers_.seconds <= 0) return;
  copies(buffer_copies_);
  const Event statistics = collective(buffers_, ranks_.record());
  const Event counters = counters_.seconds > 0 ? collective(counters_, ranks_.record()) : Event{};
  ranks_.wait(statistics);
  ranks_.wait(counters);
  copies(buffer_copies_);
}

void DdpRun::backward(const Schedule& schedule) {
  std::vector<Event> reduced;
  for (const Segment& segment : schedule.segments) {
    ranks_.compute(Phase::backward, segment.backward);
    copies(segment.copies);
    for (const int bucket : segment.launches) {
      reduced.push_back(reduce(schedule.buckets[static_cast<std::size_t>(bucket)]));
    }
  }
  const Event bitmap = bitmap_.seconds > 0 ? collective(bitmap_, ranks_.record()) : Event{};
  // Finalisation waits for the buckets in order and copies each one back [12].
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    ranks_.wait(reduced[i]);
    copies(schedule.buckets[i].copy_out);
  }
  ranks_.wait(bitmap);
}

Event DdpRun::reduce(const PlannedBucket& bucket) {
  Event done;
  for (const HookStage& stage : bucket.hook.stages) {
    if (!done.state()) {
      copies(stage.before);
      done = ranks_.record();
    } else {
      // Later stages run in callbacks, on a stream of their own.
      provenance_.add(stage.before);
      done = ranks_.enqueue(hook_stream_, stage.before.span, done);
    }
    done = collective(stage.transfer, done);
  }
  if (bucket.hook.after.busy > 0) {
    provenance_.add(bucket.hook.after);
    done = ranks_.enqueue(hook_stream_, bucket.hook.after.span, done);
  }
  return done;
}

Program DdpRun::optimizer() {
  copies(clipping_);
  // GradScaler reads found_inf before it lets the optimizer step [22].
  if (optimizer_synchronises(job_.step.precision)) co_await ranks_.host_wait(ranks_.record());
  ranks_.compute(Phase::optimizer, optimizer_work_);
}

StrategyResult DdpRun::run() {
  StrategyResult result;
  run_steps(
      world_, ranks_, speeds_, job_, [this](int step) { return one_step(step); }, result);
  result.engine = choose_engine(job_, false, 0, false);
  result.provenance = provenance_.share();
  result.samples_per_step = static_cast<double>(job_.step.samples) * job_.gpus * job_.accumulation;
  result.memory_capacity = job_.machine.device.memory_bytes;
  if (options_.comm_hook == CommHook::power_sgd) {
    result.notes.push_back(
        "PowerSGD is simulated in its compressing phase (PyTorch starts it after 1000 steps)");
  }
  return result;
}

}  // namespace

bool keeps_one_buffer(const Job& job, const DdpOptions& options) {
  return job.costs->framework() == FrameworkKind::megatron && !options.overlap;
}

int ddp_gradient_bytes(const DdpOptions& options, Precision precision) {
  return options.gradient_bytes > 0 ? static_cast<int>(std::lround(options.gradient_bytes))
                                    : gradient_bytes(precision);
}

MemoryPlan ddp_memory_plan(const Job& job, const DdpOptions& options, const BucketPlan& buckets) {
  MemoryPlan plan;
  plan.micro_batches = job.accumulation;
  plan.optimizer.state_bytes_per_element = optimizer_state_bytes(job.optimizer, job.step.precision);
  plan.optimizer.temporary_bytes_per_element =
      optimizer_temporary_bytes(job.optimizer, job.step.precision);
  if (job.gpus == 1) return plan;
  double gradients = 0;
  for (const Bucket& bucket : buckets.later) {
    plan.replicated.bucket_bytes.push_back(bucket.bytes);
    gradients += bucket.bytes;
  }
  plan.replicated.rebuilds_buckets = !options.find_unused_parameters || options.static_graph;
  plan.replicated.gradient_as_bucket_view = options.gradient_as_bucket_view;
  if (options.comm_hook == CommHook::power_sgd) plan.replicated.hook_state_bytes = gradients;
  if (options.comm_hook == CommHook::fp16_compress ||
      options.comm_hook == CommHook::bf16_compress) {
    plan.replicated.hook_temporary_fraction = 0.5;  // fact 20
  }
  plan.communication_bytes = communicator_bytes(job.machine, group_of(job.machine, job.gpus));
  return plan;
}

StrategyResult Ddp::simulate(const Job& job) const {
  StrategyResult result = DdpRun(job, options_).run();
  result.memory = memory(job);
  return result;
}

MemoryUse Ddp::memory(const Job& job) const {
  const DdpOptions options = effective_options(job, options_);
  const BucketPlan buckets = job_buckets(job, options);
  return memory_use(
      step_memory(job.step, ddp_memory_plan(job, options, buckets), job.machine.device));
}

// Buckets are those from the second step on.
nlohmann::ordered_json Ddp::communication(const Job& job) const {
  nlohmann::ordered_json j;
  j["bucket_cap_bytes"] = static_cast<std::int64_t>(options_.bucket_bytes);
  j["bucket_bytes"] = nlohmann::ordered_json::array();
  for (const Bucket& bucket : job_buckets(job, options_).later) {
    j["bucket_bytes"].push_back(static_cast<std::int64_t>(bucket.bytes));
  }
  return j;
}

std::unique_ptr<Strategy> make_strategy(const DdpOptions& options) {
  return std::make_unique<Ddp>(options);
}

}  // namespace lockstep
