// Builds and caches the training steps that points share, with their costs. Costs come in layers:
// the roofline model of the machine; above it a profile's measured layers, the changes of a
// question about other hardware, and an anchor's factors; finally a table with the answers for all
// layers of one step.
#include "points/workloads.hpp"

#include "core/describe.hpp"
#include "costs/roofline_costs.hpp"
#include "costs/transformed_costs.hpp"
#include "parallel/schedule.hpp"

namespace lockstep {

namespace {

// Largest number of workloads in the cache: a step of a hundred layers takes some 100 kB, and a
// sweep may build thousands.
constexpr std::size_t most_kept = 256;

// Returns the costs of a step. `neighbours`: the same step at the nearest measured batch sizes,
// between which the profile interpolates. `kin`: correction factors from other measured models,
// used if the profile does not hold this model.
std::shared_ptr<const ComputeCosts> make_costs(const ModelledCosts& modelled,
                                               const std::shared_ptr<const Profile>& profile,
                                               const CostScale& scale,
                                               std::vector<TrainingStep> neighbours,
                                               const ProfileKin& kin) {
  std::shared_ptr<const ComputeCosts> costs = modelled.changed;
  if (profile) {
    costs = profile_costs(profile, modelled.described, std::move(neighbours), kin);
    if (modelled.changed != modelled.described) {
      costs = changed_costs(costs, modelled.described, modelled.changed);
    }
  }
  if (scale.device != 1 || scale.host != 1) {
    TransformedCosts::Rule rule;
    rule.work = [scale](const auto& work) { return scaled(work[0], scale.device, scale.host); };
    rule.seconds = [scale](const auto& seconds) { return seconds[0] * scale.device; };
    costs = std::make_shared<TransformedCosts>(TransformedCosts::Sources{costs}, rule);
  }
  return costs;
}

// Costs that compute each layer of one step in advance, because the simulation needs every layer in
// every micro-batch. If the step is captured in CUDA graphs, the answers describe the recorded
// graph.
class KnownLayers final : public ComputeCosts {
 public:
  KnownLayers(std::shared_ptr<const ComputeCosts> costs, const TrainingStep& step)
      : costs_(std::move(costs)) {
    for (std::size_t i = 0; i < step.layers.size(); ++i) {
      layers_.push_back(costs_->layer(step, i));
    }
    if (step.captured) capture();
  }
  LayerCost layer(const TrainingStep&, std::size_t index) const override { return layers_[index]; }
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    return costs_->optimizer(optimizer, precision, elements, tensors);
  }
  QueuedWork stream(double bytes, int launches) const override {
    return costs_->stream(bytes, launches);
  }
  std::vector<QueuedWork> hook_stages(const HookSettings& settings, double bytes) const override {
    return costs_->hook_stages(settings, bytes);
  }

 private:
  // Replaces the host time of all layers by one launch at the first layer, which costs the host as
  // much as one operator. The device then runs all kernels without gaps.
  void capture() {
    const double launch = costs_->stream(1, 1).host;
    for (LayerCost& cost : layers_) {
      for (QueuedWork* work :
           {&cost.forward, &cost.backward, &cost.weight_gradient, &cost.input_gradient}) {
        work->host = 0;
        work->span = work->busy;
      }
    }
    layers_.front().forward.host = launch;
    layers_.front().forward.span += launch;
  }

  std::shared_ptr<const ComputeCosts> costs_;
  std::vector<LayerCost> layers_;
};

// A text for Key: two options have equal texts exactly if they are equal; "" = data parallelism
// only.
std::string text_of(const ParallelOptions& parallel) {
  if (replica_gpus(parallel) == 1 && parallel.expert.size == 1) return "";
  return emit_yaml(parallel);
}

// A text for Key with the same property; "" = all parameters are trained.
std::string text_of(FineTuning fine_tuning) {
  return fine_tuning.is_used() ? emit_yaml(fine_tuning) : "";
}

// Cuts the step into one part for each chunk of each pipeline stage; null without a pipeline.
std::shared_ptr<const std::vector<ModelPart>> parts_of(const TrainingStep& step,
                                                       const ParallelOptions& parallel) {
  const PipelineOptions& pipeline = parallel.pipeline;
  if (pipeline.stages == 1) return nullptr;
  const int parts = static_cast<int>(pipeline.stages) * chunks_of(pipeline);
  const std::vector<int> first_layers = even_cuts(step, pipeline, parts, parallel.where);
  return std::make_shared<const std::vector<ModelPart>>(
      cut(step, first_layers, pipeline.keep_outputs, parallel.where));
}

// Sets parameters and tokens of the whole model. If the model is divided among ranks, a rank's step
// shows only its share, so the step of the undivided model is built to count them.
void add_whole_model(const ModelFile& model, StepOptions options, Workload& workload) {
  const auto add = [&](const TrainingStep& step) {
    workload.parameters = step.parameter_count;
    workload.tokens = step.tokens / step.samples;
  };
  if (replica_gpus(options.parallel) == 1 && options.parallel.expert.size == 1) {
    return add(*workload.step);
  }
  options.parallel = {};
  add(build_step(model, options));
}

// Rebuilds the steps in the given precision for which the profile has layer times. profile_kin()
// compares them with the step of a model that was not measured.
std::vector<TrainingStep> measured_steps(const Profile& profile, const StepOptions& step_options,
                                         Precision precision) {
  std::vector<TrainingStep> steps;
  // As `calibrate` measures: without activation checkpointing and in the default memory layout.
  StepOptions options;
  options.precision = step_options.precision;
  options.autocast = step_options.autocast;
  for (const ProfileModel& model : profile.models) {
    if (model.precision != precision) continue;
    try {
      const auto file = load_model(model.model);
      for (const ProfileBatch& batch : model.batches) {
        options.samples = batch.samples;
        TrainingStep step = build_step(*file, options);
        step.precision = precision;
        if (measured_model(profile, step) == &model) steps.push_back(std::move(step));
      }
      // Skips a model whose file is missing. A model that was measured with other arguments is
      // skipped above.
    } catch (const ConfigError&) {
    }
  }
  return steps;
}

}  // namespace

std::shared_ptr<const ComputeCosts> Workloads::described(
    const std::shared_ptr<const Machine>& machine, const Framework& framework) {
  auto& costs =
      costs_[{machine, framework.name, framework.operator_seconds, framework.backward_share,
              framework.update_share, framework.flash_attention}];
  if (!costs) costs = std::make_shared<RooflineCosts>(*machine, framework);
  return costs;
}

std::shared_ptr<const Workload> Workloads::get(const Scenario& scenario, const Inputs& inputs,
                                               const ModelledCosts& modelled,
                                               const CostScale& scale,
                                               const StepOptions& step_options,
                                               Precision precision) {
  Key key{modelled.changed,
          inputs.profile,
          inputs.model,
          scale.device,
          scale.host,
          step_options.samples,
          step_options.precision,
          step_options.autocast,
          step_options.wide_batch_norm,
          precision,
          step_options.image,
          step_options.sequence,
          step_options.tokens_before,
          step_options.classes,
          step_options.parameters,
          step_options.fused_attention,
          step_options.channels_last,
          step_options.activation_checkpointing,
          step_options.recompute,
          text_of(step_options.parallel),
          text_of(step_options.fine_tuning),
          scenario.dataset.tokens > 0,
          step_options.compile,
          step_options.fused_kernels,
          step_options.cuda_graphs,
          step_options.micro_batches,
          step_options.low_precision.recipe,
          step_options.low_precision.gather,
          step_options.framework};
  if (const auto found = workloads_.find(key); found != workloads_.end()) return found->second;

  Workload workload;
  // Build the step, and add the profile's measurements that concern it: convolution workspaces, the
  // same step at other batch sizes, or factors from other models.
  TrainingStep step = scenario_step(scenario, *inputs.model, step_options);
  step.precision = precision;
  std::vector<TrainingStep> neighbours;
  ProfileKin kin;
  if (inputs.profile) {
    use_measured_workspaces(*inputs.profile, step);
    StepOptions other = step_options;
    for (const std::int64_t samples : neighbouring_batches(*inputs.profile, step)) {
      other.samples = samples;
      neighbours.push_back(build_step(*inputs.model, other));
      neighbours.back().precision = precision;
    }
    if (measured_model(*inputs.profile, step) == nullptr) {
      kin = profile_kin(*inputs.profile, *modelled.described,
                        measured_steps(*inputs.profile, step_options, precision), step);
    }
  }
  // Compute its costs and sum up its device work.
  workload.costs = std::make_shared<KnownLayers>(
      make_costs(modelled, inputs.profile, scale, std::move(neighbours), kin), step);
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    const LayerCost cost = workload.costs->layer(step, i);
    workload.compute_seconds += cost.forward.busy + cost.backward.busy;
    workload.memory_bound_seconds += cost.memory_bound;
  }
  // Cut it into stages. Only the first token slice of a sequence has the numbers of the whole
  // model.
  workload.step = std::make_shared<const TrainingStep>(std::move(step));
  workload.parts = parts_of(*workload.step, step_options.parallel);
  if (step_options.tokens_before == 0) add_whole_model(*inputs.model, step_options, workload);
  if (workloads_.size() >= most_kept) workloads_.clear();
  return workloads_.emplace(std::move(key), std::make_shared<const Workload>(workload))
      .first->second;
}

}  // namespace lockstep
