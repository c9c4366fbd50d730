// Converts facts of all formats to fields of a scenario (batch, mesh, precision, optimizer,
// strategy and others). Each field has the key that states it as its source; afterwards, the fate
// of every key follows from these sources.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/describe_emit.hpp"
#include "hardware/machine.hpp"
#include "training_configs/interpretation.hpp"

namespace lockstep {
namespace {

// States the fields, in the order in which scenario_text.cpp writes them.
class ScenarioStatement {
 public:
  ScenarioStatement(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config)
      : facts_(facts), answers_(answers), config_(config) {}

  void state() {
    words("recipe", "recipe");
    sequence();
    length();
    batch();
    for (const auto& [path, fact] : {std::pair{"precision", "precision"},
                                     {"attention", "attention"},
                                     {"framework.flash_attention", "flash_attention"},
                                     {"compile", "compile"},
                                     {"fused_kernels", "fused_kernels"},
                                     {"cuda_graphs", "cuda_graphs"},
                                     {"low_precision.recipe", "low_precision"},
                                     {"low_precision.gather", "low_precision.gather"},
                                     {"adapters.rank", "adapters.rank"},
                                     {"adapters.targets", "adapters.targets"},
                                     {"adapters.dropout", "adapters.dropout"},
                                     {"adapters.whole", "adapters.whole"},
                                     {"frozen.half", "frozen.half"},
                                     {"frozen.quantization", "frozen.quantization"},
                                     {"frozen.nested", "frozen.nested"},
                                     {"optimizer.name", "optimizer.name"},
                                     {"optimizer.implementation", "optimizer.implementation"}})
      words(path, fact);
    number("optimizer.weight_decay", "weight_decay");
    number("optimizer.momentum", "momentum");
    number("gradient_clipping", "clip");
    if (facts_.has("undecided.precision") && !facts_.has("precision"))
      ask("precision", "--set precision=amp-bf16");
    recomputation();
    devices();
    mesh();
    strategy();
  }

 private:
  // The key that states a fact, for the comment at the end of the field's line.
  std::string source(const std::string& fact) const {
    const Fact* found = facts_.peek(fact);
    if (!found) return "";
    return found->key.empty() ? "default" : found->key;
  }

  void put(const std::string& path, const std::string& value, const std::string& fact) {
    config_.fields.push_back({path, value, source(fact)});
  }

  // Add a field if its fact exists: words() in any case, number() if it is positive, count() if it
  // is at least `least`.
  void words(const std::string& path, const std::string& fact) {
    if (const auto value = facts_.text(fact)) put(path, *value, fact);
  }

  void number(const std::string& path, const std::string& fact) {
    const auto value = facts_.number(fact);
    if (value && *value > 0) put(path, fmt::format("{}", *value), fact);
  }

  void count(const std::string& path, const std::string& fact, std::int64_t least) {
    const auto value = facts_.count(fact);
    if (value && *value >= least) put(path, std::to_string(*value), fact);
  }

  void ask(const std::string& field, const std::string& option) {
    config_.asked.push_back({field, option});
  }

  // States the sequence length, or adds a note that the model's own length is taken.
  void sequence() {
    const auto value = facts_.count("sequence");
    if (value && *value > 0) {
      // A model with learned positions has a table of positions, which must be as long as the
      // sequence.
      if (*value > 1024 && learns_positions())
        put("model_parameters.sequence", std::to_string(*value), "sequence");
      return put("input.sequence", std::to_string(*value), "sequence");
    }
    if (!facts_.flag("no_sequence"))
      config_.notes.push_back(
          "no file states the sequence length: the model's own is taken "
          "(--sequence N says another)");
  }

  // Samples of one optimizer step over all GPUs; nothing if the files do not determine them.
  std::optional<std::int64_t> samples_of_step() {
    find_gpus();
    if (const auto global = facts_.count("global"); global && *global > 0) return global;
    const auto micro = facts_.count("micro"), ranks = data_ranks();
    if (!micro || !ranks || *micro <= 0) return std::nullopt;
    return *micro * *ranks * std::max<std::int64_t>(1, facts_.count("accumulation").value_or(1));
  }

  // Whether the model's family has learned positions.
  bool learns_positions() const {
    for (const ScenarioField& field : config_.fields) {
      if (field.path != "model") continue;
      const std::string family = field.value.substr(0, field.value.find('-'));
      return family == "mpt" || family == "gpt" || family == "megatron" || family == "bert";
    }
    return false;
  }

  // States the run's length by the first of these that a file states: steps, tokens, or samples and
  // epochs.
  void length() {
    const auto steps = facts_.count("steps");
    if (steps && *steps > 0 && answers_.length_as_data) {
      if (const auto batch = samples_of_step())
        return put("dataset.samples", std::to_string(*steps * *batch), "steps");
    }
    if (steps && *steps > 0) return put("dataset.steps", std::to_string(*steps), "steps");
    if (const auto tokens = facts_.number("tokens"); tokens && *tokens > 0)
      return put("dataset.tokens", fmt::format("{}", *tokens), "tokens");
    const auto samples = facts_.number("samples");
    if (!samples || *samples <= 0) return;
    put("dataset.samples", fmt::format("{}", *samples), "samples");
    number("dataset.epochs", "epochs");
  }

  // GPUs of one replica: tensor x context x pipeline. Experts lie inside the data-parallel ranks.
  std::int64_t replica() {
    std::int64_t gpus = 1;
    for (const char* axis : {"tensor", "context", "ulysses", "stages"})
      gpus *= std::max<std::int64_t>(1, facts_.count(axis).value_or(1));
    return gpus;
  }

  // Number of ranks with different samples; nothing if the number of GPUs is not known.
  std::optional<std::int64_t> data_ranks() {
    if (!gpus_) return std::nullopt;
    if (*gpus_ % replica() != 0) refuse_replica(*gpus_, replica());
    return *gpus_ / replica();
  }

  [[noreturn]] void refuse_replica(std::int64_t gpus, std::int64_t replica) {
    const Fact& fact = *facts_.peek("gpus");
    throw ConfigError(
        Diagnostic{fact.where, fact.key,
                   fmt::format("{} GPUs hold no whole replica of {} (tensor x context x pipeline)",
                               gpus, replica),
                   fmt::format("--gpus N with a multiple of {}", replica)});
  }

  // States the batch. Two of micro-batch, accumulation and global batch determine the third; if all
  // are stated, they must agree.
  void batch() {
    find_gpus();
    data_ranks();
    const auto micro = facts_.count("micro"), accumulation = facts_.count("accumulation"),
               global = facts_.count("global"), per_gpu = facts_.count("per_gpu");
    const bool has_micro = micro && *micro > 0, has_global = global && *global > 0,
               has_per_gpu = per_gpu && *per_gpu > 0;
    if (has_micro && has_global && accumulation) check_product(*micro, *accumulation, *global);
    if (has_micro) put("batch.micro", std::to_string(*micro), "micro");
    if (has_global) put("batch.global", std::to_string(*global), "global");
    if (has_per_gpu && !has_global) put("batch.per_gpu", std::to_string(*per_gpu), "per_gpu");
    // If both micro-batch and global batch are stated, accumulation follows from them.
    const bool splits = accumulation && *accumulation > 0 && !(has_micro && has_global);
    if (splits) put("batch.accumulation", std::to_string(*accumulation), "accumulation");
    if (!has_micro && !has_global && !has_per_gpu) ask("batch.micro", "--micro N");
  }

  // Throws ConfigError unless global = micro x accumulation x data-parallel ranks. Checks nothing
  // if the number of ranks is not known.
  void check_product(std::int64_t micro, std::int64_t accumulation, std::int64_t global) {
    const auto ranks = data_ranks();
    if (!ranks || micro * accumulation * *ranks == global) return;
    const Fact& fact = *facts_.peek("global");
    throw ConfigError(Diagnostic{
        fact.where, fact.key,
        fmt::format(
            "{} samples are not {} of a micro-batch x {} of accumulation x {} data-parallel ranks",
            global, micro, accumulation, *ranks),
        fmt::format("{} would be", micro * accumulation * *ranks)});
  }

  // States recomputation. A stated kind takes precedence over a switch (`checkpointing`).
  void recomputation() {
    const std::string kind = facts_.word("recompute", "");
    if (kind.empty()) {
      if (facts_.has("checkpointing") && facts_.flag("checkpointing"))
        put("activation_checkpointing", "true", "checkpointing");
      return;
    }
    if (kind == "none") return;
    put("activation_checkpointing", "true", "recompute");
    put("recompute", kind, "recompute");
  }

  // Finds the number of GPUs: as stated, as nodes x GPUs per node, or as the product of the degrees
  // of parallelism. If it stays unknown, devices() asks for it or takes one node.
  void find_gpus() {
    gpus_ = facts_.count("gpus");
    if (gpus_ && *gpus_ > 0) return;
    gpus_.reset();
    const auto nodes = facts_.count("nodes"), per_node = facts_.count("gpus_per_node");
    if (per_node && *per_node > 0) {
      gpus_ = *per_node * std::max<std::int64_t>(1, nodes.value_or(1));
      return facts_.replace("gpus", {std::to_string(*gpus_), {}, source("gpus_per_node")});
    }
    const auto shard = facts_.count("dp.shard");
    const auto replicate = facts_.count("dp.replicate"), ranks = facts_.count("dp.ranks");
    if (!(ranks && *ranks > 0) && !(shard && *shard > 0)) return;
    std::int64_t total = ranks ? *ranks : *shard * std::max<std::int64_t>(1, replicate.value_or(1));
    for (const char* axis : {"tensor", "context", "stages", "ulysses"})
      total *= std::max<std::int64_t>(1, facts_.count(axis).value_or(1));
    gpus_ = total;
    facts_.replace("gpus", {std::to_string(total), {}, "the product of the degrees"});
  }

  // States the platform, or asks for it. States the number of GPUs, takes one node, or asks.
  void devices() {
    if (!answers_.platform.empty()) {
      config_.fields.push_back({"platform", fields::yaml_text(answers_.platform), "--platform"});
    } else {
      ask("platform", "--platform NAME");
    }
    if (gpus_) return put("gpus", std::to_string(*gpus_), "gpus");
    if (answers_.platform.empty()) return ask("gpus", "--gpus N" + product_hint());
    // One node of the platform is taken only if the batch and the mesh divide by its GPUs.
    const Machine machine = load_machine(answers_.platform);
    if (!divides(machine.gpus_per_node)) return ask("gpus", "--gpus N" + product_hint());
    config_.fields.push_back({"gpus", std::to_string(machine.gpus_per_node), "one node"});
    config_.notes.push_back(
        fmt::format("no file states the number of GPUs: one node of {}, {}, is taken "
                    "(--gpus N says another)",
                    answers_.platform, machine.gpus_per_node));
  }

  // Data-parallel ranks times accumulation; 0 if the batch does not determine it.
  std::int64_t rank_steps() {
    const auto micro = facts_.count("micro"), global = facts_.count("global");
    if (!micro || !global || *micro <= 0 || *global <= 0) return 0;
    return *global / *micro;
  }

  std::string product_hint() {
    const std::int64_t steps = rank_steps();
    return steps == 0 ? "" : fmt::format(", where data-parallel ranks x accumulation = {}", steps);
  }

  // Whether the mesh and the batch can be divided among so many GPUs.
  bool divides(std::int64_t gpus) {
    const std::int64_t ranks = std::max<std::int64_t>(1, gpus / replica());
    if (gpus % replica() != 0) return false;
    const std::int64_t steps = rank_steps();
    return steps == 0 || steps % ranks == 0;
  }

  void axis(const char* path, const char* fact) {
    const auto value = facts_.count(fact);
    if (value && *value > 1) put(std::string("parallel.") + path, std::to_string(*value), fact);
  }

  // The mesh. Degrees of 1 are left out.
  void mesh() {
    axis("tensor.size", "tensor");
    if (facts_.count("tensor").value_or(1) > 1) {
      words("parallel.tensor.sequence", "sequence_parallel");
      words("parallel.tensor.overlap", "tensor.overlap");
    }
    axis("context.size", "context");
    // Ulysses is context parallelism by all-to-all.
    if (facts_.count("ulysses").value_or(1) > 1) {
      axis("context.size", "ulysses");
      put("parallel.context.exchange", "all-to-all", "ulysses");
    } else if (facts_.count("context").value_or(1) > 1) {
      words("parallel.context.exchange", "context.exchange");
    }
    axis("expert.size", "expert");
    if (facts_.count("expert").value_or(1) > 1) {
      count("parallel.expert.tensor", "expert.tensor", 1);
      words("parallel.expert.dispatch", "expert.dispatch");
    }
    axis("pipeline.stages", "stages");
    if (facts_.count("stages").value_or(1) <= 1) return;
    words("parallel.pipeline.schedule", "schedule");
    count("parallel.pipeline.chunks", "chunks", 2);
  }

  // States the options of the chosen strategy. Options of other strategies have no effect.
  void strategy() {
    std::string name = facts_.word("strategy", "");
    if (name.empty()) {
      name = "ddp";
      config_.assumptions.push_back("strategies: ddp (no file states one)");
    }
    const std::size_t first = config_.fields.size();
    for (const char* option : options_of(name)) {
      const std::string fact = name + "." + option;
      if (facts_.has(fact)) put("strategies." + fact, yaml_word(*facts_.text(fact)), fact);
    }
    if (config_.fields.size() == first) put("strategies." + name, "", "strategy");
  }

  // Converts Python's True and False to YAML's true and false.
  static std::string yaml_word(const std::string& text) {
    const std::string word = lower_case(text);
    return word == "true" || word == "false" ? word : text;
  }

  // All options of a strategy that an import may state, in the order in which they are written.
  static std::vector<const char*> options_of(const std::string& strategy) {
    if (strategy == "fsdp")
      return {"version",
              "sharding",
              "shard_group",
              "wrap",
              "backward_prefetch",
              "forward_prefetch",
              "limit_all_gathers",
              "cpu_offload",
              "offload.optimizer",
              "offload.parameters",
              "offload.fraction",
              "offload.update",
              "offload.overlap",
              "offload.sub_group",
              "zeropp.quantized_weights",
              "zeropp.secondary_shards",
              "zeropp.quantized_gradients",
              "gather_element_size",
              "reduce_element_size",
              "sync_every_micro_batch",
              "use_orig_params"};
    if (strategy == "zero")
      return {"stage",
              "shard_group",
              "bucket_size",
              "overlap",
              "reduction",
              "partition",
              "gather",
              "gradient_element_size",
              "offload.optimizer",
              "offload.fraction",
              "offload.update",
              "offload.overlap"};
    if (strategy == "local_sgd") return {"steps", "outer", "fragments"};
    return {"bucket_size",          "first_bucket_size", "gradient_as_bucket_view",
            "broadcast_buffers",    "sync_batch_norm",   "find_unused_parameters",
            "static_graph",         "comm_hook",         "overlap",
            "gradient_element_size"};
  }

  Facts& facts_;
  const ConfigAnswers& answers_;
  ImportedConfig& config_;
  // Found by find_gpus().
  std::optional<std::int64_t> gpus_;
};

// Sets fate and meaning of a key that stated a fact: fields whose source is the key, a use inside
// another field, or no effect in this configuration.
void account(KeyAccount& account, const Facts& facts, const std::vector<ScenarioField>& fields) {
  if (account.fact.empty()) return;
  if (account.fate == KeyFate::asked) {
    const bool said = facts.has(account.fact);
    account.fate = said ? KeyFate::mapped : KeyFate::asked;
    account.meaning = said ? "another file states it" : "asked for";
    return;
  }
  std::vector<std::string> paths;
  for (const ScenarioField& field : fields) {
    if (field.source == account.key) paths.push_back(field.path + ": " + field.value);
  }
  if (!paths.empty()) {
    account.meaning = fmt::format("{}", fmt::join(paths, ", "));
  } else if (facts.used(account.fact)) {
    account.meaning = "equal to the default, or part of another field";
  } else {
    account.fate = KeyFate::without_effect;
    account.meaning = "it has no effect in this configuration";
  }
}

}  // namespace

void state_scenario(Facts& facts, const ConfigAnswers& answers, ImportedConfig& config) {
  state_model(facts, answers, config);
  ScenarioStatement(facts, answers, config).state();
  for (KeyAccount& entry : config.keys) account(entry, facts, config.fields);
}

}  // namespace lockstep
