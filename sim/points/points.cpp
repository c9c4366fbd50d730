// Expands a scenario into jobs in four steps: check stragglers, fabric and failures against the
// platform (check_*); edit the machine and its costs (hardware_of); find the mesh and batch of each
// strategy and GPU count (requests_of); build, check and compute the costs of the training step of
// each (point_of). Each step collects misfits from the whole scenario, so the user sees several at
// once.
#include "points/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "costs/roofline_costs.hpp"
#include "points/faults.hpp"
#include "points/misfits.hpp"
#include "points/other_devices.hpp"
#include "points/token_slices.hpp"
#include "points/workloads.hpp"
#include "strategies/common/stragglers.hpp"
#include "workload/ops.hpp"

namespace lockstep {

namespace {

// FLOPs that the model needs for one micro-batch on a mean GPU; MFU uses them. With expert
// parallelism, the step describes the GPU with the fullest experts. In units of a mean GPU's
// tokens, that GPU computes `computed`, and a mean GPU needs 1 - dropped. The difference is
// subtracted from the experts' FLOPs.
double needed_flops(const TrainingStep& step, const ParallelOptions& parallel) {
  double flops = step.forward_flops + step.backward_flops;
  for (const Layer& layer : step.layers) {
    if (parallel.expert.size == 1 || layer.kind != "experts") continue;
    const RankLoad load = rank_load(parallel, attribute(layer, "count") * parallel.expert.size);
    const double computed = parallel.expert.capacity > 0 ? parallel.expert.capacity : load.fullest;
    const double idle = 1 - (1 - load.dropped) / computed;
    for (const auto* kernels : {&layer.forward, &layer.backward}) {
      for (const Kernel& kernel : *kernels) flops -= idle * model_flops(kernel);
    }
  }
  return flops;
}

// Precision of the operators. PyTorch's TF32 switches have no effect on a device without TF32
// units: the kernels are the same as in fp32.
Precision compute_precision(const Strategy& strategy, Precision precision, const Device& device) {
  if (math_mode(precision) == MathMode::tf32 && device.tf32_flops <= 0) return Precision::fp32;
  return strategy.compute_precision(precision);
}

// Refuses changes of the network (`fabric:`) that this platform cannot have: no network at all,
// oversubscription without leaf switches, trunks at nodes that do not exist.
void check_fabric(const Scenario& scenario, const Machine& machine, Misfits& misfits) {
  if (scenario.fabric == FabricChange{}) return;
  if (machine.fabric.kind == FabricKind::none) {
    misfits.add(scenario.fabric_where, "fabric",
                fmt::format("{} has no network between nodes", machine.name),
                "another platform, or a file of your own with `base:` and a `fabric:`");
    return;
  }
  if (scenario.fabric.oversubscription &&
      changed(machine.fabric, scenario.fabric).nodes_per_leaf == 0) {
    misfits.add(scenario.fabric_where, "fabric.oversubscription",
                "has no effect where one switch joins all nodes", "nodes_per_leaf, too");
  }
  if (const auto node =
          unknown_node(scenario.fabric.trunks.value_or(std::vector<Trunk>{}), machine.max_nodes)) {
    misfits.add(scenario.fabric_where, "fabric.trunks", fmt::format("there is no node {}", *node),
                fmt::format("nodes are 0 to {}", machine.max_nodes - 1));
  }
}

// The platform's machine after the changes that the scenario and the question make, and the
// modelled costs before and after these changes.
struct Hardware {
  Machine machine;
  ModelledCosts costs;
};

// Applies three changes in order: the scenario's `fabric:`, the question's `edit`, the scenario's
// price. Costs of an unchanged machine come from `workloads`, which shares them between points.
Hardware hardware_of(const Scenario& scenario, const Inputs& inputs, Workloads& workloads,
                     const MachineEdit& edit) {
  Hardware hardware{*inputs.machine, {}};
  Machine& machine = hardware.machine;
  machine.device.expandable_segments = scenario.framework.expandable_segments;
  hardware.costs.described = hardware.costs.changed =
      workloads.described(inputs.machine, scenario.framework);
  const bool rewired = scenario.fabric != FabricChange{};
  if (edit || rewired) {
    Framework framework = scenario.framework;
    if (rewired) {
      machine.fabric = changed(machine.fabric, scenario.fabric);
      machine.title +=
          fmt::format("; its network changed to {} x {:g} Gbit/s per node",
                      machine.fabric.nics_per_node, 8e-9 * machine.fabric.nic_bytes_per_second);
    }
    if (edit) edit(machine, framework);
    change_curves(*inputs.machine, machine);
    hardware.costs.changed = std::make_shared<RooflineCosts>(machine, framework);
  }
  if (scenario.price_per_gpu_hour) {
    machine.price_per_gpu_hour = *scenario.price_per_gpu_hour;
    machine.price_source = "the scenario";
  }
  return hardware;
}

// Checks a link class and node that a scenario names for slow links and neighbours. Servers on
// hosts of their own count as nodes after the nodes with GPUs.
class LinkCheck {
 public:
  LinkCheck(const Scenario& scenario, const Machine& machine, int nodes, Misfits& misfits)
      : machine_(machine),
        fabric_(changed(machine.fabric, scenario.fabric)),
        nodes_(nodes),
        servers_(hosts_of_servers(scenario)),
        misfits_(misfits) {}

  // Refuses a link class that the machine lacks, and a trunk, whose rate the scenario gives
  // directly (`fabric: {trunks: ...}`).
  void link(const Location& where, const char* field, LinkClass link) {
    if (link == LinkClass::trunk) {
      misfits_.add(where, field, "a trunk has the rate that it is given",
                   "`fabric: {trunks: ...}`");
    }
    if (link == LinkClass::uplink && fabric_.nodes_per_leaf == 0) {
      misfits_.add(where, field, "one switch joins all nodes: there are no uplinks",
                   "NIC, or `fabric: {nodes_per_leaf: ...}`");
    }
    if (link == LinkClass::nvlink && machine_.intra != IntraLink::nvlink) {
      misfits_.add(where, field, fmt::format("{} has no NVLink", machine_.name), "PCIe, NIC");
    }
  }
  // Refuses a node that exists at no GPU count of the scenario. Also refuses links inside a node
  // (NVLink, PCIe) if the node is the host of a server, which has no GPU.
  void node(const Location& where, const char* field, LinkClass link, int node) {
    if (node < nodes_) return;
    const std::string gpus = fmt::format("nodes are 0 to {}", nodes_ - 1);
    if (node >= nodes_ + servers_) {
      misfits_.add(where, field, fmt::format("there is no node {}", node),
                   servers_ == 0 ? gpus
                                 : fmt::format("{}, the servers' own hosts {} to {}", gpus, nodes_,
                                               nodes_ + servers_ - 1));
    } else if (link == LinkClass::nvlink || link == LinkClass::pcie) {
      misfits_.add(where, field, fmt::format("node {} is a server's host and has no GPU", node),
                   gpus);
    }
  }

 private:
  const Machine& machine_;
  FabricSpec fabric_;
  int nodes_, servers_;
  Misfits& misfits_;
};

// Refuses stragglers on nodes, ranks or links that exist at no GPU count of the scenario. Without a
// simulated network (`simulation.network: analytic`), also refuses neighbours, and slow links
// unless all strategies have servers.
void check_stragglers(const Scenario& scenario, const Machine& machine, Misfits& misfits) {
  const int most = *std::max_element(scenario.gpus.begin(), scenario.gpus.end());
  const int nodes = nodes_of(most, machine);
  for (const OtherDevice& other : scenario.stragglers.other_devices) {
    for (const int node : other.nodes) {
      if (node < nodes) continue;
      misfits.add(other.where, "stragglers.other_devices.nodes",
                  fmt::format("there is no node {}", node),
                  fmt::format("nodes are 0 to {}", nodes - 1));
    }
    for (const int rank : other.ranks) {
      if (rank < most) continue;
      misfits.add(other.where, "stragglers.other_devices.ranks",
                  fmt::format("there is no rank {}", rank),
                  fmt::format("ranks are 0 to {}", most - 1));
    }
  }
  LinkCheck check(scenario, machine, nodes, misfits);
  for (const SlowLink& slow : scenario.stragglers.slow_links) {
    check.node(slow.where, "stragglers.slow_links.node", slow.link, slow.node);
    check.link(slow.where, "stragglers.slow_links.link", slow.link);
    const auto is_served = [](const StrategyEntry& entry) {
      return make_strategy(entry.options)->servers() > 0;
    };
    const auto& all = scenario.strategies;
    if (scenario.simulation.network == NetworkKind::analytic &&
        !std::all_of(all.begin(), all.end(), is_served)) {
      misfits.add(slow.where, "stragglers.slow_links",
                  "simulation.network: analytic prices collectives on links of full speed", "flow");
    }
  }
  for (const Neighbour& neighbour : scenario.stragglers.neighbours) {
    for (const int node : neighbour.nodes) {
      check.node(neighbour.where, "stragglers.neighbours.nodes", neighbour.link, node);
    }
    check.link(neighbour.where, "stragglers.neighbours.link", neighbour.link);
    if (scenario.simulation.network == NetworkKind::analytic) {
      misfits.add(neighbour.where, "stragglers.neighbours",
                  "simulation.network: analytic lets nobody share a link", "flow");
    }
  }
}

// A point before it is built: the strategy entry, the mesh of its GPU count, the batch on it.
struct PointRequest {
  std::size_t entry = 0;
  std::shared_ptr<const Strategy> strategy;
  Mesh mesh;
  BatchSplit split;
};

// Returns the mesh of `gpus` GPUs. Adds a misfit and returns nothing if the strategy excludes the
// parallelism, the GPUs are not whole replicas of tensor x context x stages, or a stage's GPUs are
// not whole groups of expert parallelism.
std::optional<Mesh> fitting_mesh(const Scenario& scenario, const StrategyEntry& entry,
                                 const Strategy& strategy, int gpus, Misfits& misfits) {
  const ParallelOptions& parallel = parallel_of(scenario, entry);
  const int each = replica_gpus(parallel);
  if (each == 1 && parallel.expert.size == 1) return mesh_of(parallel, gpus);
  if (const std::string reason = strategy.mesh_misfit(parallel); !reason.empty()) {
    misfits.add(parallel.where, "parallel", fmt::format("not with {}: {}", entry.label, reason),
                drains(parallel.pipeline.schedule) ? "ddp, fsdp, zero" : "ddp");
    return std::nullopt;
  }
  if (gpus % each != 0) {
    misfits.add(
        scenario.gpus_where, "gpus",
        fmt::format("{} GPUs are not whole replicas of {} (tensor {} x context {} x stages {})",
                    gpus, each, parallel.tensor.size, parallel.context.size,
                    parallel.pipeline.stages),
        gpus < each ? std::to_string(each)
                    : fmt::format("{} or {}", gpus / each * each, (gpus / each + 1) * each));
    return std::nullopt;
  }
  const Mesh mesh = mesh_of(parallel, gpus);
  if (mesh.stage_gpus() % mesh.expert_span() != 0) {
    misfits.add(parallel.where, "parallel.expert",
                fmt::format("{} GPUs of a stage cannot share experts in groups of {}",
                            mesh.stage_gpus(), mesh.expert_span()),
                "a divisor of data x context x tensor");
    return std::nullopt;
  }
  return mesh;
}

// Checks the pipeline's options against its mesh: token slices, gradient clipping, and the rules of
// the schedule itself (misfits_of()).
void check_schedule(const Scenario& scenario, const ParallelOptions& parallel, const Mesh& mesh,
                    int micro_batches, Misfits& misfits) {
  const PipelineOptions& pipeline = parallel.pipeline;
  const bool sliced = pipeline.slices != 1;
  const bool shared = mesh.context > 1 || mesh.expert > 1;
  if (sliced && (mesh.pipeline == 1 || shared)) {
    misfits.add(parallel.where, "parallel.pipeline.slices",
                "slices of tokens go through stages that have whole sequences and experts",
                "2 stages or more, context: 1, expert: 1");
  }
  if (mesh.pipeline == 1) return;
  if (!drains(pipeline.schedule) && scenario.gradient_clipping > 0) {
    misfits.add(parallel.where, "parallel.pipeline.schedule",
                fmt::format("{} has no norm of all gradients: its stages are in different steps",
                            enum_name(pipeline.schedule)),
                "1f1b, or no gradient_clipping");
  }
  PipelineShape shape{mesh.pipeline, chunks_of(pipeline), micro_batches, 0};
  if (sliced) shape.slices = 2;  // the rules distinguish only one slice and several
  for (const ScheduleMisfit& misfit : misfits_of(pipeline.schedule, shape)) {
    misfits.add(parallel.where, "parallel." + misfit.field, misfit.message, misfit.hint);
  }
}

// Refuses combinations with adapters and frozen parameters (`fine_tuning:`) that are not modelled:
// a model that is cut over GPUs, strategies other than DDP, ZeRO and FSDP2 without offload, and
// frozen parameters in half precision without autocast.
void check_fine_tuning(const Scenario& scenario, const StrategyEntry& entry, Misfits& misfits) {
  const FineTuning& fine_tuning = scenario.fine_tuning;
  if (!fine_tuning.is_used()) return;
  const ParallelOptions& parallel = parallel_of(scenario, entry);
  if (replica_gpus(parallel) > 1 || parallel.expert.size > 1) {
    misfits.add(parallel.where, "parallel",
                fmt::format("not with {}: layers are not cut", fine_tuning.field()),
                "data parallelism");
  }
  const auto* fsdp = std::get_if<FsdpOptions>(&entry.options);
  const bool whole_or_sharded = std::holds_alternative<DdpOptions>(entry.options) ||
                                std::holds_alternative<ZeroOptions>(entry.options) ||
                                (fsdp != nullptr && fsdp->version == 2 && !fsdp->cpu_offload &&
                                 fsdp->offloaded_share() <= 0 && !fsdp->zeropp.is_used());
  if (!whole_or_sharded) {
    misfits.add(entry.where, "strategies",
                fmt::format("{} is not with {}", strategy_name(entry.options), fine_tuning.field()),
                "ddp, zero, fsdp: {version: 2} without offload and zeropp");
  }
  const Precision precision = entry.precision.value_or(scenario.precision);
  if (fine_tuning.frozen.half && !is_autocast(precision)) {
    misfits.add(fine_tuning.frozen.where, "frozen.half",
                fmt::format("has no effect with {}", enum_name(precision)), "precision: amp-bf16");
  }
}

// Returns the points that can be built, and adds a misfit for every other one. Too many GPUs and an
// indivisible batch are the same mistake for all entries, so only the first entry adds these
// misfits.
std::vector<PointRequest> requests_of(const Scenario& scenario, const Machine& machine,
                                      Misfits& misfits) {
  std::vector<PointRequest> list;
  for (std::size_t e = 0; e < scenario.strategies.size(); ++e) {
    const StrategyEntry& entry = scenario.strategies[e];
    const std::shared_ptr<const Strategy> strategy = make_strategy(entry.options);
    check_fine_tuning(scenario, entry, misfits);
    check_fast_path(scenario, entry, machine.device, misfits);
    if (auto refused = strategy->misfit(entry.precision.value_or(scenario.precision))) {
      misfits.add(entry.where, refused->field, refused->message, refused->hint);
    }
    if (auto refused = strategy->optimizer_misfit(scenario.optimizer, machine.device)) {
      misfits.add(entry.where, refused->field, refused->message, refused->hint);
    }
    for (const int gpus : scenario.gpus) {
      if (gpus > max_gpus(machine)) {
        const bool has_fabric = machine.fabric.kind != FabricKind::none;
        if (e == 0) {
          misfits.add(
              scenario.gpus_where, "gpus",
              fmt::format("{} GPUs, but {} has at most {}", gpus, machine.name, max_gpus(machine)),
              fmt::format("a larger platform, or a file of your own with `base: {}`{} and "
                          "`max_nodes: {}`",
                          machine.name, has_fabric ? "" : ", a `fabric:`",
                          nodes_of(gpus, machine)));
        }
        continue;
      }
      const std::optional<Mesh> mesh = fitting_mesh(scenario, entry, *strategy, gpus, misfits);
      if (!mesh) continue;
      try {
        const BatchSplit split = split_batch(scenario.batch, mesh->replicas(),
                                             replica_gpus(parallel_of(scenario, entry)));
        check_schedule(scenario, parallel_of(scenario, entry), *mesh, split.accumulation, misfits);
        list.push_back({e, strategy, *mesh, split});
      } catch (const std::invalid_argument& error) {
        if (e == 0) misfits.add(scenario.batch_where, "batch", error.what());
      }
    }
  }
  return list;
}

// Default sigma of the fixed speed differences between ranks: `usual_spread` on accelerators, none
// on CPUs.
std::optional<double> usual_sigma(const Machine& machine) {
  if (machine.device.architecture == Architecture::cpu) return std::nullopt;
  return usual_spread;
}

// Fills the parts of a job that do not depend on the training step.
Job job_of(const Scenario& scenario, const Hardware& hardware, const PointRequest& request) {
  Job job;
  job.machine = hardware.machine;
  job.mesh = request.mesh;
  job.accumulation = request.split.accumulation;
  job.optimizer = scenario.optimizer;
  job.gradient_clipping = scenario.gradient_clipping;
  job.input_on_device = scenario.data_loading.on_device;
  if (scenario.data_loading.samples_per_second > 0) {
    job.data_loading_seconds =
        static_cast<double>(request.split.micro) / scenario.data_loading.samples_per_second;
  }
  job.stragglers = scenario.stragglers;
  if (!job.stragglers.per_rank_sigma) job.stragglers.per_rank_sigma = usual_sigma(job.machine);
  job.simulation.seed = static_cast<std::uint64_t>(scenario.simulation.seed);
  job.simulation.steps = static_cast<int>(scenario.simulation.steps);
  job.simulation.interference = scenario.simulation.interference;
  job.simulation.network = scenario.simulation.network;
  job.simulation.engine = scenario.simulation.engine;
  return job;
}

// Builds the training step of a request with its costs, then the job around it. The order matters:
// the optimizer and the strategy's refusal need the step, token slices need the finished job, and
// other devices wrap the costs of the step and its slices. Throws ConfigError if model, step or
// strategy refuse the options.
Point point_of(const Scenario& scenario, const Inputs& inputs, const Hardware& hardware,
               Workloads& workloads, const CostScale& scale, const PointRequest& request) {
  const StrategyEntry& entry = scenario.strategies[request.entry];
  Point point;
  point.entry = request.entry;
  point.label = entry.label;
  point.where = entry.where;
  point.strategy = request.strategy;
  point.global_batch = request.split.global;
  point.micro_batch = request.split.micro;
  point.step_options = step_options(scenario, entry, request.split.micro);
  if (point.step_options.low_precision.is_used()) {
    point.step_options.micro_batches = request.split.accumulation;
  }
  point.precision = point.step_options.precision;  // of shards and optimizer
  point.step_options.precision =
      compute_precision(*request.strategy, point.precision, hardware.machine.device);
  point.step_options.autocast = request.strategy->autocasts(point.precision);
  point.step_options.wide_batch_norm = request.strategy->widens_batch_norm(point.precision);
  point.model = inputs.model;
  point.profile = inputs.profile;
  point.devices = inputs.devices;
  point.relative_error = hardware.machine.device.efficiency.relative_error;

  const auto workload =
      workloads.get(scenario, inputs, hardware.costs, scale, point.step_options, point.precision);
  point.parameters = workload->parameters;
  point.tokens_per_sample = workload->tokens;
  // FLOPs and seconds of one GPU are a share of the model's, because stages divide the layers.
  const double passes = static_cast<double>(request.split.accumulation) / request.mesh.pipeline;
  point.compute_seconds = workload->compute_seconds * passes;
  point.memory_bound_seconds = workload->memory_bound_seconds * passes;
  const TrainingStep& step = *workload->step;
  point.model_flops = needed_flops(step, point.step_options.parallel) * passes;
  point.job = job_of(scenario, hardware, request);
  static_cast<PricedStep&>(point.job) = *workload;
  point.job.parallel = parallel_of(scenario, entry);
  point.job.framework = scenario.framework.name;
  point.job.controller = scenario.framework.controller;
  point.job.optimizer = for_model(point.job.optimizer, step);
  if (auto refused = request.strategy->refusal(point.job, point.step_options.channels_last)) {
    refused->where = entry.where;
    throw ConfigError(std::move(*refused));
  }
  point.seeds = scenario.simulation.seeds;
  if (any(scenario.stragglers)) {  // the comparison: ranks that differ only by their usual spread
    point.usual.emplace().per_rank_sigma = point.job.stragglers.per_rank_sigma;
  }
  point.job.slices = token_slices(point.job, [&](std::int64_t tokens, std::int64_t before) {
    StepOptions slice = point.step_options;
    slice.sequence = tokens;
    slice.tokens_before = before;
    return *workloads.get(scenario, inputs, hardware.costs, scale, slice, point.precision);
  });
  use_other_devices(scenario, inputs, point.job);
  point.job.communication_scale = scale.communication;
  return point;
}

}  // namespace

std::vector<Point> expand(const Scenario& scenario, const Inputs& inputs, Workloads& workloads,
                          const std::vector<CostScale>& scales, const MachineEdit& edit) {
  Misfits misfits;
  if (scenario.strategies.size() * scenario.gpus.size() > most_points) {
    misfits.add(scenario.gpus_where, "gpus",
                fmt::format("{} strategies at {} GPU counts are too many points, at most {}",
                            scenario.strategies.size(), scenario.gpus.size(), most_points));
    misfits.throw_if_any();
  }
  check_fabric(scenario, *inputs.machine, misfits);
  check_stragglers(scenario, *inputs.machine, misfits);
  check_other_devices(scenario, inputs, misfits);
  misfits.throw_if_any();
  const Hardware hardware = hardware_of(scenario, inputs, workloads, edit);
  check_faults(scenario, hardware.machine, misfits);
  std::vector<Point> points;
  for (const PointRequest& request : requests_of(scenario, hardware.machine, misfits)) {
    const CostScale scale = scales.empty() ? CostScale{} : scales[request.entry];
    const std::size_t made = points.size();
    misfits.attempt(scenario.model_where, "model", [&] {
      points.push_back(point_of(scenario, inputs, hardware, workloads, scale, request));
    });
    if (points.size() == made) misfits.throw_if_any();  // the others would fail for the same reason
    check_recovery(scenario, points.back(), misfits);
    check_captured(scenario, scenario.strategies[request.entry], *points.back().job.step, misfits);
  }
  misfits.throw_if_any();
  return points;
}

std::vector<Point> expand(const Scenario& scenario, const std::vector<CostScale>& scales,
                          const MachineEdit& edit) {
  Workloads workloads;
  return expand(scenario, InputFiles().of(scenario), workloads, scales, edit);
}

}  // namespace lockstep
