// Converts the settings of the page's controls to answers. An answer is the JSON of the report
// (results/report.hpp) for one scenario, and the values that the page's controls must show. These
// values come from the changed scenario, not from the page.
#include "explorer/explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "core/data.hpp"
#include "core/yaml.hpp"
#include "explorer/routes.hpp"
#include "hardware/machine.hpp"
#include "questions/run.hpp"
#include "sweep/override.hpp"
#include "workload/model.hpp"
#include "workload/model_file.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

// The content of a question's JSON.
struct Question {
  std::string file;
  std::vector<std::string> settings;
};

// Throws Json::exception if the text is no question.
Question read_question(const std::string& text) {
  const Json json = Json::parse(text);
  return {json.at("scenario").get<std::string>(),
          json.at("settings").get<std::vector<std::string>>()};
}

// A strategy that the page offers in addition to the scenario's own: an entry of `strategies`, and
// its explanation.
struct Preset {
  const char* entry;
  const char* says;
};
constexpr std::array presets{
    Preset{"ddp", "DistributedDataParallel"},
    Preset{"fsdp", "parameters, gradients and states sharded"},
    Preset{"{fsdp: {sharding: shard_grad_op}, label: fsdp grad_op}",
           "parameters stay whole between forward and backward"},
    Preset{"{fsdp: {version: 2}, label: fsdp2}", "PyTorch's fully_shard"},
    Preset{"{fsdp: {cpu_offload: true}, label: fsdp offload}", "shards in host memory"},
    Preset{"{zero: {stage: 1}, label: zero 1}", "optimizer state sharded"},
    Preset{"{zero: {stage: 2}, label: zero 2}", "gradients, too"},
    Preset{"{local_sgd: {every: 8}, label: local sgd 8}", "averages every eighth step"},
    Preset{"{parameter_server: {consistency: sync}, label: ps sync}", "all wait for all"},
    Preset{"{parameter_server: {consistency: async}, label: ps async}", "nobody waits"},
    Preset{"{parameter_server: {consistency: ssp, staleness_bound: 3}, label: ps ssp 3}",
           "nobody is more than three steps ahead"},
};

// Names of an enum's values, for a control.
template <class Enum>
Json names_of_enum() {
  Json names = Json::array();
  for (const char* name : EnumNames<Enum>::names) names.push_back(name);
  return names;
}

// The length of the run and its unit; "" if the scenario does not state it.
Json dataset_of(const DatasetSpec& dataset) {
  const std::array<std::pair<const char*, double>, 4> ways{{{"samples", dataset.samples},
                                                            {"tokens", dataset.tokens},
                                                            {"steps", dataset.steps},
                                                            {"seconds", dataset.seconds}}};
  for (const auto& [name, amount] : ways) {
    if (amount > 0) return {{"of", name}, {"amount", amount}, {"epochs", dataset.epochs}};
  }
  return {{"of", ""}, {"amount", nullptr}, {"epochs", dataset.epochs}};
}

// The values of the controls for a scenario.
Json form_of(const Scenario& scenario, const Node& root, const ResultRecord& record) {
  Json strategies = Json::array();
  const std::vector<Node> entries = elements_of(root, "strategies");
  for (std::size_t e = 0; e < entries.size(); ++e) {
    strategies.push_back(
        {{"label", scenario.strategies[e].label}, {"entry", flow_text(entries[e])}});
  }
  const BatchSpec& batch = scenario.batch;
  const char* kind = batch.global > 0 ? "global" : batch.per_gpu > 0 ? "per_gpu" : "micro";
  const bool is_global = batch.global > 0, is_per_gpu = batch.per_gpu > 0;
  Json form{{"model", scenario.model},
            {"platform", scenario.platform},
            {"precision", enum_name(scenario.precision)},
            {"optimizer", enum_name(scenario.optimizer.name)},
            {"activation_checkpointing", scenario.activation_checkpointing},
            {"gpus", scenario.gpus},
            {"batch", kind},
            {"samples", is_global    ? batch.global
                        : is_per_gpu ? batch.per_gpu
                                     : batch.micro},
            {"accumulation", batch.accumulation},
            {"dataset", dataset_of(scenario.dataset)},
            {"strategies", std::move(strategies)}};
  if (record.sequence) form["sequence"] = *record.sequence;
  if (record.image) form["image"] = *record.image;
  // Fields that the page must leave out if the user changes the model or the platform.
  form["has"] = Json::array();
  for (const char* field : {"model_parameters", "input", "fabric", "profile", "anchor"}) {
    if (root.find(field)) form["has"].push_back(field);
  }
  // Values that the platform gives unless the scenario does.
  const Machine machine = load_machine(scenario.platform);
  form["price"] = scenario.price_per_gpu_hour.value_or(machine.price_per_gpu_hour);
  const FabricSpec fabric = changed(machine.fabric, scenario.fabric);
  if (fabric.kind != FabricKind::none) {
    form["network"] = {{"gbit", 8e-9 * fabric.nic_bytes_per_second},
                       {"nics_per_node", fabric.nics_per_node}};
  }
  return form;
}

// The text as one word of a POSIX shell.
std::string in_shell_quotes(const std::string& text) {
  const bool plain =
      text.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:%@") ==
      std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// The command line that prints the same answer.
std::string command_of(const Question& question) {
  std::string command = "lockstep run " + in_shell_quotes(question.file);
  for (const std::string& setting : question.settings) {
    command += " --set " + in_shell_quotes(setting);
  }
  return command;
}

// The user's mistakes, as JSON for the page.
Json errors_of(const ConfigError& error) {
  Json list = Json::array();
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    list.push_back(
        {{"field", diagnostic.field}, {"message", diagnostic.message}, {"hint", diagnostic.hint}});
  }
  return {{"errors", std::move(list)}};
}

// A reply with one message that belongs to no field.
ExplorerReply fault(int status, const std::string& message) {
  const Json error{{"field", ""}, {"message", message}, {"hint", ""}};
  return {status, Json{{"errors", Json::array({error})}}.dump(-1, ' ', false,
                                                              Json::error_handler_t::replace)};
}

}  // namespace

Explorer::Explorer(std::string file, int workers) : start_(std::move(file)), workers_(workers) {
  files_ = shipped_scenarios();
  // The user's file is offered before the shipped ones.
  if (start_.empty()) {
    start_ = files_.front();
  } else {
    read_scenario(start_);
    if (std::find(files_.begin(), files_.end(), start_) == files_.end()) {
      files_.insert(files_.begin(), start_);
    }
  }
}

std::string Explorer::choices() const {
  Json scenarios = Json::array(), platforms = Json::array(), strategies = Json::array();
  for (const std::string& file : files_) {
    scenarios.push_back({{"file", file}, {"name", read_scenario(file).name}});
  }
  for (const std::string& name : known_machines()) {
    const Machine machine = load_machine(name);
    platforms.push_back(
        {{"name", name}, {"title", machine.title}, {"most_gpus", max_gpus(machine)}});
  }
  Json models = Json::array();
  for (const std::string& name : known_models()) {
    models.push_back({{"name", name}, {"reads", load_model(name)->tokens ? "tokens" : "images"}});
  }
  for (const Preset& preset : presets) {
    strategies.push_back({{"entry", preset.entry}, {"says", preset.says}});
  }
  return Json{{"scenarios", std::move(scenarios)},
              {"start", start_},
              {"models", std::move(models)},
              {"platforms", std::move(platforms)},
              {"precisions", names_of_enum<Precision>()},
              {"optimizers", names_of_enum<OptimizerKind>()},
              {"strategies", std::move(strategies)}}
      .dump();
}

ExplorerReply Explorer::answer(const std::string& text,
                               const std::function<void(const RunProgress&)>& progress) const {
  const auto began = std::chrono::steady_clock::now();
  try {
    const Question question = read_question(text);
    if (std::find(files_.begin(), files_.end(), question.file) == files_.end()) {
      return fault(400, "this scenario is not offered");
    }
    const Node file = Node::parse_file(question.file);
    const auto own = [&](const char* field) {
      const auto node = file.find(field);
      return node ? node->scalar() : std::string();
    };
    // The scenario's own model and platform are allowed even if they are files of the user.
    check_allowed(question.settings, {own("model"), own("platform")});
    const Node root = with_settings(file, question.settings);
    const Scenario scenario = read_scenario_node(root, question.file);
    // The settings change the scenario as in `run --set`. The answer is a report with one chapter.
    ReportChapter chapter =
        report_chapter(scenario, run_scenario(scenario, {workers_, progress}), {workers_, {}});
    // The page shows the file's own text unless settings change it.
    if (!question.settings.empty()) chapter.inputs = document_text(root);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    Json reply{{"data", report_json({chapter})},
               {"form", form_of(scenario, root, chapter.record)},
               {"yaml", chapter.inputs},
               {"command", command_of(question)},
               {"seconds", took.count()}};
    return {200, reply.dump(-1, ' ', false, Json::error_handler_t::replace)};
  } catch (const Json::exception&) {
    return fault(400, "a question is {\"scenario\": FILE, \"settings\": [TEXT, ...]}");
  } catch (const ConfigError& error) {
    return {422, errors_of(error).dump(-1, ' ', false, Json::error_handler_t::replace)};
  } catch (const std::exception& error) {
    return fault(500, error.what());
  }
}

}  // namespace lockstep
