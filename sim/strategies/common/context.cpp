// Makes the world of a job, and issues the work of its hosts. The costs of a part's layers are
// taken from the whole step, so that a measured profile of the whole model also serves its parts.
// Sums over tensor ranks follow PyTorch or Megatron-LM (fact H18).
#include "strategies/common/context.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "parallel/schedule.hpp"
#include "strategies/common/step_parts.hpp"

namespace lockstep {

namespace {

// The costs of a part's layers, taken from the costs of the whole step.
class PartCosts final : public ComputeCosts {
 public:
  PartCosts(const Job& job, const ModelPart& part) : job_(job), layers_(part.layers) {}

  LayerCost layer(const TrainingStep&, std::size_t index) const override {
    const int whole = layers_.at(index);
    if (whole < 0) return {};  // a boundary of the part ("receive", "send") has no kernels
    return job_.costs->layer(*job_.step, static_cast<std::size_t>(whole));
  }
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    return job_.costs->optimizer(optimizer, precision, elements, tensors);
  }
  QueuedWork stream(double bytes, int launches) const override {
    return job_.costs->stream(bytes, launches);
  }
  std::vector<QueuedWork> hook_stages(const HookSettings& settings, double bytes) const override {
    return job_.costs->hook_stages(settings, bytes);
  }

 private:
  const Job& job_;
  std::vector<int> layers_;
};

// The field of exposed communication for an axis.
double AxisSeconds::*seconds_of(Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return &AxisSeconds::tensor;
    case Axis::context:
      return &AxisSeconds::context;
    case Axis::expert:
      return &AxisSeconds::expert;
    case Axis::pipeline:
      return &AxisSeconds::pipeline;
    case Axis::data:
      break;
  }
  return &AxisSeconds::data;
}

// The groups of the mesh, followed by the strategy's groups.
std::vector<RankGroups> with_divisions(const Mesh& mesh, std::span<const RankGroups> axes) {
  std::vector<RankGroups> result = divisions_of(mesh);
  result.insert(result.end(), axes.begin(), axes.end());
  return result;
}

}  // namespace

MemoryUse fullest(const std::vector<MemoryUse>& stages) {
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const MemoryUse& a, const MemoryUse& b) { return a.device < b.device; });
}

// Token slices count as micro-batches of the schedule (PipelineShape::slices).
PipelineShape pipeline_shape(const Job& job) {
  const int parts = job.parts ? static_cast<int>(job.parts->size()) : job.mesh.pipeline;
  return {job.mesh.pipeline, parts / job.mesh.pipeline, job.passes(), 0,
          job.slices_of_micro_batch()};
}

// The part's step shares ownership with the job's list of parts.
Job part_job(const Job& job, std::size_t part) {
  Job result = job;
  if (!job.parts) return result;
  const ModelPart& model_part = job.parts->at(part);
  result.step = std::shared_ptr<const TrainingStep>(job.parts, &model_part.step);
  result.costs = std::make_shared<PartCosts>(job, model_part);
  result.parts = nullptr;
  return result;
}

StageRanks::StageRanks(World& world, const Job& job, int number, const std::string& name,
                       const RankSpeeds& rank_speeds, const StepCosts& costs)
    // The names distinguish the stages of a pipeline from the ranks of run_apart().
    : stage(number),
      speeds(rank_speeds),
      network(world, job),
      ranks(world.add_ranks({.name = job.mesh.pipeline == 1 ? name
                                                            : (job.parts ? "stage " : "rank ") +
                                                                  std::to_string(number),
                             .ranks_per_lane = speeds.ranks_per_lane(),
                             .lane_of_rank = speeds.lane_of_rank(),
                             .device_of_lane = speeds.device_of_lane(number),
                             .slowdown = interference_of(job, costs),
                             .one_thread = one_thread(job)})) {}

Communicator& StageRanks::communicator(const std::string& name, const RankGroups& groups,
                                       Axis axis) {
  Communicator*& known = communicators_[name];
  if (known == nullptr) {
    // If all ranks are in one group, or none is given, all lanes are together.
    const bool together =
        std::adjacent_find(groups.begin(), groups.end(), std::not_equal_to<>()) == groups.end();
    known = &ranks.add_communicator(
        name, together ? std::vector<std::vector<int>>{} : lanes_of(groups, speeds.lane_of_rank()),
        seconds_of(axis));
  }
  return *known;
}

TrainingContext::TrainingContext(const Job& part_job, World& job_world, StageRanks& stage_ranks,
                                 const RankSpeeds& rank_speeds)
    : job(part_job),
      costs(step_costs(job)),
      speeds(rank_speeds),
      world(job_world),
      stage(stage_ranks),
      network(stage_ranks.network),
      ranks(stage_ranks.ranks) {
  price_exchanges();
  if (job.mesh.tensor > 1) price_sums();
}

// One all-reduce for each tensor, or a single one for all, with a copy into a flat tensor and back.
void TrainingContext::price_sums() {
  const CommGroup group = axis_group(job, Axis::tensor);
  scalar_ = network.collective(group, Collective::all_reduce, 4);  // an fp32 number
  const double element = gradient_bytes(job.step->precision);
  const bool as_one = job.parallel.tensor.shared_exchanges;
  double bytes = 0;
  int tensors = 0;
  for (const Layer& layer : job.step->layers) {
    for (const Parameter& parameter : layer.parameters) {
      if (!parameter.partial_over_tensor || !parameter.trainable) continue;
      bytes += element * static_cast<double>(parameter.count);
      ++tensors;
      if (as_one) continue;
      sums_.push_back(network.collective(group, Collective::all_reduce, bytes));
      sums_.back().spec.what = parameter.name;
      bytes = 0;
    }
  }
  if (!as_one || tensors == 0) return;
  sums_.push_back(network.collective(group, Collective::all_reduce, bytes));
  sums_.back().spec.what = "gradients of norms";
  flattening_ = job.costs->stream(2 * bytes, tensors);
}

// Issues an all-reduce over the tensor ranks and makes the compute stream wait for it.
void TrainingContext::over_tensor_ranks(const PricedTransfer& transfer) {
  Communicator& communicator =
      stage.communicator("tensor parallel", axis_ranks(job.mesh, Axis::tensor), Axis::tensor);
  ranks.wait(collective(communicator, transfer, ranks.record()));
}

void TrainingContext::sum_over_tensor_ranks() {
  if (sums_.empty()) return;
  copies(flattening_, "flatten gradients");
  for (const PricedTransfer& sum : sums_) over_tensor_ranks(sum);
  copies(flattening_, "split gradients");
}

void TrainingContext::reduce_scalar_over_tensor_ranks() {
  if (scalar_.seconds > 0) over_tensor_ranks(scalar_);
}

// Exchanges of the same axis share a communicator. `exchanges_` maps the address of an exchange in
// the step to its cost.
void TrainingContext::price_exchanges() {
  for (const Layer& layer : job.step->layers) {
    for (const auto* exchanges : {&layer.forward_exchanges, &layer.backward_exchanges}) {
      for (const AxisExchange& exchange : *exchanges) {
        PricedExchange& priced = exchanges_[&exchange];
        priced.communicator =
            &stage.communicator(enum_name(exchange.axis) + " parallel",
                                axis_ranks(job.mesh, exchange.axis), exchange.axis);
        priced.transfer = network.collective(axis_group(job, exchange.axis),
                                             collective_of(exchange.kind), exchange.bytes);
        priced.transfer.spec.what = layer.name;
      }
    }
  }
}

Event TrainingContext::collective(Communicator& communicator, const PricedTransfer& transfer,
                                  const Event& after) {
  provenance.add(transfer);
  return issue_collective(ranks, communicator, transfer.spec, after);
}

Event TrainingContext::exchange(const AxisExchange& exchange, const Event& after) {
  const PricedExchange& priced = exchanges_.at(&exchange);
  return collective(*priced.communicator, priced.transfer, after);
}

Event TrainingContext::copy(StreamId stream, const PricedTransfer& transfer, const Event& after) {
  provenance.add(transfer);
  return ranks.copy(stream, transfer.spec, after);
}

void TrainingContext::copies(const QueuedWork& work, std::string_view name) {
  if (work.busy <= 0) return;
  provenance.add(work);
  ranks.compute(Phase::copies, work, name);
}

// On a CPU the work runs in the compute stream, because one thread does everything.
Event TrainingContext::run(StreamId stream, const QueuedWork& kernels, const Event& after) {
  if (one_thread(job)) {
    if (kernels.busy <= 0) return after;
    ranks.wait(after);
    copies(kernels);
    return ranks.record();
  }
  provenance.add(kernels);
  ranks.host(kernels.host);
  return ranks.enqueue(stream, kernels.busy, after, kernels.busy > 0, {}, ranks.elsewhere(kernels));
}

TrainingWorld::TrainingWorld(const Job& trained_job, const std::string& name, Engine executor,
                             std::span<const RankGroups> axes)
    : job(trained_job),
      engine(executor),
      world({.network = trained_job.simulation.network,
             .engine = executor,
             .observer = trained_job.simulation.observer}),
      speeds(trained_job, with_divisions(trained_job.mesh, axes)) {
  // The interference on a stage follows from the mix of kernels of the whole step.
  const StepCosts costs = step_costs(job);
  for (int stage = 0; stage < job.mesh.pipeline; ++stage) {
    stages.emplace_back(world, job, stage, name, speeds, costs);
  }
  // If the model is not divided into parts, each stage holds the whole model. This is the case with
  // one stage, or with ranks that have no common step.
  if (!job.parts) {
    for (StageRanks& stage : stages) parts.emplace_back(job, world, stage, speeds);
    return;
  }
  // The schedule determines which stage holds each part of the model.
  const PipelineShape shape = pipeline_shape(job);
  for (std::size_t part = 0; part < job.parts->size(); ++part) {
    const PartPlace place = place_of(job.parallel.pipeline.schedule, shape, static_cast<int>(part));
    parts.emplace_back(part_job(job, part), world, stages[static_cast<std::size_t>(place.rank)],
                       speeds);
  }
  // Token slices have the same parts on the same stages, but costs of their own.
  for (const PricedStep& slice : job.slices) {
    Job& sliced = sliced_jobs.emplace_back(job);
    static_cast<PricedStep&>(sliced) = slice;
    std::deque<TrainingContext>& contexts = slices.emplace_back();
    for (std::size_t part = 0; part < parts.size(); ++part) {
      contexts.emplace_back(part_job(sliced, part), world, parts[part].stage, speeds);
    }
  }
}

}  // namespace lockstep
