// Enumerates the candidates of a recommendation: platforms, GPU counts, forms of strategies, memory
// savers and micro-batches; with a mesh also the sizes of its axes. Leaves out only combinations
// that cannot exist; bounds and simulations exclude others later.
#include "sweep/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "points/batch.hpp"
#include "points/workloads.hpp"
#include "sweep/meshes.hpp"
#include "sweep/override.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

namespace {

// A method that saves memory of activations.
struct Saver {
  const char* name;      // suffix of the strategy's name
  const char* settings;  // fields of the strategy's entry
  bool checkpointing;
};

// Samples of one optimizer step per replica; nothing if the batch does not divide. If the global or
// per-GPU batch is given, the scenario's micro-batch and accumulation are ignored, because
// candidates choose their own.
std::optional<std::int64_t> samples_of_replica(BatchSpec batch, int replicas) {
  if (batch.global > 0 || batch.per_gpu > 0) batch.micro = batch.accumulation = 0;
  try {
    const BatchSplit split = split_batch(batch, replicas);
    return split.micro * split.accumulation;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// The step of the whole model with activation checkpointing, so that all activations that can be
// recomputed are marked.
TrainingStep whole_step(const Scenario& scenario, const Inputs& inputs) {
  StepOptions options = step_options(scenario, scenario.strategies.front(), 1);
  options.activation_checkpointing = true;
  options.parallel = {};
  return scenario_step(scenario, *inputs.model, options);
}

// Whether activation checkpointing has any effect on the model.
bool can_checkpoint(const TrainingStep& step) {
  return std::any_of(step.layers.begin(), step.layers.end(),
                     [](const Layer& layer) { return layer.checkpointed; });
}

// Whether the scenario itself gives a mesh.
bool has_mesh(const Scenario& scenario) {
  return replica_gpus(scenario.parallel) > 1 || scenario.parallel.expert.size > 1;
}

// A mesh with size 2 on every model axis: reading a scenario with it fills in each axis's default
// options. Without `split` the sizes are 1.
ParallelOptions all_axes(bool split) {
  ParallelOptions mesh;
  mesh.tensor.size = mesh.context.size = mesh.expert.size = mesh.pipeline.stages = split ? 2 : 1;
  return mesh;
}

// Savers to try: none, checkpointing as the scenario configures it, and full recomputation if that
// is different.
std::vector<Saver> savers_of(const Scenario& scenario) {
  std::vector<Saver> savers{{"", "activation_checkpointing: false", false},
                            {", checkpointing", "activation_checkpointing: true", true}};
  if (scenario.recompute != Recompute::blocks) {
    savers.push_back(
        {", all recomputed", "activation_checkpointing: true, recompute: blocks", true});
  }
  return savers;
}

// A form of a strategy (strategies/options.hpp) with a memory saver.
struct Kind {
  StrategyForm form;
  std::string name, setting;
  std::shared_ptr<const Scenario> base;

  // Whether the form makes sense on these GPUs. A form may need several ranks, NVMe drives, or
  // several whole nodes.
  bool runs_on(int gpus, const Machine& machine) const {
    if (form.several && gpus == 1) return false;
    if (form.nvme && machine.host.nvme.read_bytes_per_second <= 0) return false;
    const int per_node = machine.gpus_per_node;
    return !form.whole_nodes || (gpus > per_node && gpus % per_node == 0);
  }
};

// The family of all candidates with a mesh.
constexpr const char* mesh_family = "mesh";
constexpr int mesh_complexity = 2;  // plus 1 for each axis in use

// Number of axes with several ranks.
int axes_of(const ParallelOptions& mesh) {
  return (mesh.tensor.size > 1) + (mesh.context.size > 1) + (mesh.expert.size > 1) +
         (mesh.pipeline.stages > 1);
}

// Enumerates the candidates without a mesh on one platform.
struct Search {
  const Variants& variants;
  std::vector<std::string> settings;
  std::string platform;

  // All forms of strategies with all savers, each with its scenario.
  std::vector<Kind> kinds(const std::vector<Saver>& savers, bool checkpoints) const {
    std::vector<Kind> list;
    AlternativeNames<StrategyOptions>::each_form(
        [&](const char* strategy, const StrategyForm& form) {
          for (const Saver& saver : savers) {
            if (saver.checkpointing && !checkpoints) continue;
            Kind kind{form, std::string(form.name) + saver.name, {}, {}};
            kind.setting =
                fmt::format("strategies={{{}: {}, {}}}", strategy, form.options, saver.settings);
            std::vector<std::string> all = settings;
            all.push_back(kind.setting);
            kind.base = std::make_shared<const Scenario>(variants.with(all));
            list.push_back(std::move(kind));
          }
        });
    return list;
  }

  // Adds candidates with halved micro-batches: all samples of a GPU, half as many, and so on while
  // the number is even.
  void add(const Kind& kind, int gpus, std::int64_t samples, std::vector<Candidate>& list) const {
    for (std::int64_t micro = samples;; micro /= 2) {
      Candidate c;
      c.platform = platform;
      c.gpus = gpus;
      c.strategy = kind.name;
      c.family = kind.form.family;
      c.complexity = kind.form.complexity;
      c.micro = micro;
      c.accumulation = samples / micro;
      c.base = kind.base;
      c.settings = settings;
      c.settings.push_back(fmt::format("gpus={}", gpus));
      c.settings.push_back(kind.setting);
      c.settings.push_back(
          fmt::format("batch={{micro: {}, accumulation: {}}}", micro, c.accumulation));
      if (c.accumulation <= most_accumulation) list.push_back(std::move(c));
      if (micro % 2 != 0) break;
    }
  }
};

// Enumerates the candidates with a mesh on one platform and GPU count.
class MeshSearch {
 public:
  MeshSearch(const Variants& variants, std::vector<std::string> settings, const Scenario& scenario,
             const Machine& machine, int gpus, std::int64_t samples)
      : variants_(variants),
        settings_(std::move(settings)),
        scenario_(scenario),
        machine_(machine),
        gpus_(gpus),
        samples_(samples) {}

  // Adds candidates for every saver, strategy and mesh. If the scenario gives a mesh, no other is
  // tried.
  void add(const std::vector<Saver>& savers, bool checkpoints, const TrainingStep& step,
           Candidates& all) {
    const MeshLimits limits = scenario_.recommend.value_or(RecommendSpec{}).parallel;
    const bool fixed = has_mesh(scenario_);
    const std::string every_axis = mesh_setting(all_axes(true), recipe());
    for (const Saver& saver : savers) {
      if (saver.checkpointing && !checkpoints) continue;
      for (const MeshForm& form : mesh_forms) {
        const std::string setting =
            fmt::format("strategies={{{}: {}, {}}}", form.strategy, form.options, saver.settings);
        std::vector<std::string> changes = settings_;
        changes.push_back(setting);
        if (!fixed) changes.push_back(every_axis);
        const auto base = std::make_shared<const Scenario>(variants_.with(changes));
        std::size_t refused = 0;
        const std::vector<ParallelOptions> meshes =
            fixed ? std::vector{base->parallel}
                  : meshes_of(limits, base->parallel, step, gpus_, machine_.gpus_per_node, refused);
        all.refused += refused;
        for (const ParallelOptions& mesh : meshes) {
          add(mesh, form, fmt::format("{} {}{}", form.name, mesh_name(mesh), saver.name), setting,
              base, limits, all);
        }
      }
    }
  }

 private:
  // Whether the scenario names a recipe. If so, the recipe's defaults for the axes apply.
  bool recipe() const { return scenario_.recipe != Recipe::none; }

  // Adds a mesh once for each micro-batch of the limits that divides the batch.
  void add(const ParallelOptions& mesh, const MeshForm& form, const std::string& name,
           const std::string& setting, const std::shared_ptr<const Scenario>& base,
           const MeshLimits& limits, Candidates& all) const {
    if (gpus_ % replica_gpus(mesh) != 0) return void(++all.refused);
    const Mesh axes = mesh_of(mesh, gpus_);
    const bool shares = std::string(form.strategy) != "ddp";
    if (shares && axes.copies() == 1) return;  // no other rank exists to share parameters with
    const int node = machine_.gpus_per_node;
    // Hybrid sharding needs copies of the parameters on several whole nodes.
    if (form.whole_nodes && (axes.copies() <= node || axes.copies() % node != 0)) return;
    const std::int64_t samples = samples_ / axes.replicas();
    for (const std::int64_t micro : limits.micro) {
      if (samples_ % axes.replicas() != 0 || samples % micro != 0 ||
          samples / micro > most_accumulation) {
        ++all.refused;
        continue;
      }
      Candidate c;
      c.platform = machine_.name;
      c.gpus = gpus_;
      c.mesh = mesh_name(mesh);
      c.strategy = name;
      c.family = mesh_family;
      c.complexity = mesh_complexity + axes_of(mesh);
      c.micro = micro;
      c.accumulation = samples / micro;
      c.base = base;
      c.parallel = mesh;
      c.settings = settings_;
      c.settings.push_back(fmt::format("gpus={}", gpus_));
      c.settings.push_back(setting);
      if (!has_mesh(scenario_)) c.settings.push_back(mesh_setting(mesh, recipe()));
      c.settings.push_back(
          fmt::format("batch={{micro: {}, accumulation: {}}}", micro, c.accumulation));
      all.meshes.push_back(std::move(c));
    }
  }

  const Variants& variants_;
  std::vector<std::string> settings_;
  const Scenario& scenario_;
  const Machine& machine_;
  int gpus_;
  std::int64_t samples_;  // of a step, in all replicas together
};

// The values of a command-line option that has the syntax of a setting.
std::vector<std::string> texts_of(const char* option, const std::string& values) {
  Setting setting = parse_setting(fmt::format("{}={}", option, values));
  return setting.texts;
}

}  // namespace

Scenario scenario_of(const Candidate& candidate) {
  Scenario scenario = *candidate.base;
  scenario.gpus = {candidate.gpus};
  scenario.parallel = candidate.parallel;
  scenario.batch = {};
  scenario.batch.micro = candidate.micro;
  scenario.batch.accumulation = candidate.accumulation;
  return scenario;
}

bool same_but_for_micro_batch(const Candidate& a, const Candidate& b) {
  return a.platform == b.platform && a.gpus == b.gpus && a.strategy == b.strategy;
}

Variants::Variants(const std::string& file, const std::vector<std::string>& changes)
    : file_(file), root_(with_settings(Node::parse_file(file), changes)) {
  if (root_.kind() != Node::Kind::map) return;
  root_ = root_.without("measured").without("anchor");
  const auto platform = root_.find("platform");
  if (!platform || platform->elements().empty()) return;
  for (const Node& listed : platform->elements()) platforms_.push_back(listed.scalar());
  root_ = root_.with("platform", platform->elements().front(), root_.key_location("platform"));
}

Scenario Variants::with(const std::vector<std::string>& settings) const {
  Node root = root_;
  for (const std::string& text : settings) {
    const Setting setting = parse_setting(text);
    const Node& value = setting.values.front();
    const bool list = setting.path == "strategies";
    root = put(root, setting, list ? value.with_elements({value}) : value);
  }
  return read_scenario_node(root, file_);
}

Candidates candidates_of(const Scenario& scenario, const RecommendOptions& options,
                         InputFiles& files) {
  const Variants variants(scenario.file, options.settings);
  // The command line's platforms and GPU counts replace the file's.
  std::vector<std::string> platforms = variants.platforms(), counts;
  if (platforms.empty()) platforms = {""};
  if (!options.platforms.empty()) platforms = texts_of("platform", options.platforms);
  for (const int gpus : scenario.gpus) counts.push_back(std::to_string(gpus));
  if (!options.gpus.empty()) counts = texts_of("gpus", options.gpus);

  const std::vector<Saver> savers = savers_of(scenario);
  const bool fixed = has_mesh(scenario);
  Candidates all;
  for (const std::string& platform : platforms) {
    std::vector<std::string> of_platform;
    if (!platform.empty()) of_platform.push_back("platform=" + platform);
    const Inputs inputs = files.of(variants.with(of_platform));
    const Machine& machine = *inputs.machine;
    const Search search{variants, of_platform, machine.name};
    const TrainingStep step = whole_step(scenario, inputs);
    const bool checkpoints = can_checkpoint(step);
    const std::vector<Kind> kinds = fixed ? std::vector<Kind>{} : search.kinds(savers, checkpoints);
    for (const std::string& count : counts) {
      const int gpus = variants.with({"gpus=" + count}).gpus.front();
      if (gpus > max_gpus(machine)) {
        ++all.left_out["more GPUs than the platform has (per count)"];
        continue;
      }
      const int replicas = gpus / replica_gpus(scenario.parallel);
      const auto samples = samples_of_replica(scenario.batch, replicas);
      if (!samples) {
        ++all.left_out["the batch does not divide among the GPUs (per count)"];
        continue;
      }
      for (const Kind& kind : kinds) {
        if (kind.runs_on(gpus, machine)) search.add(kind, gpus, *samples, all.plain);
      }
      // Meshes are tried only if the model states how it may be cut.
      if (!fixed && (gpus == 1 || inputs.model->tensor_parallel.empty())) continue;
      MeshSearch(variants, of_platform, scenario, machine, gpus, *samples * replicas)
          .add(savers, checkpoints, step, all);
    }
  }
  return all;
}

}  // namespace lockstep
