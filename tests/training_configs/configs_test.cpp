// Do configs of public projects give the fields that their text says, and is every key accounted
// for? data/README.md lists the configs; expected.yaml was read off them by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/yaml.hpp"
#include "scenario/scenario.hpp"
#include "test_folder.hpp"
#include "training_configs/imported_config.hpp"
#include "training_configs/key_table.hpp"

namespace lockstep::configs_test {
namespace {

namespace fs = std::filesystem;

const std::string folder = LOCKSTEP_SOURCE_DIR "/tests/training_configs";

// Files to which a config points and that lie beside it under another name.
const std::map<std::string, std::vector<std::string>> companions{
    {"llamafactory/fp8_deepspeed.yaml", {"deepspeed/llamafactory_z3_fp8.json"}},
    {"axolotl/alst_500k.yaml", {"deepspeed/axolotl_z3_offload_all_old_names.json"}},
    {"accelerate/deepspeed_file_reference.yaml", {"deepspeed/accelerate_zero3_template.json"}},
};

std::vector<std::string> config_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder + "/data")) {
    if (entry.is_regular_file() && entry.path().filename() != "README.md")
      files.push_back(fs::relative(entry.path(), folder + "/data").string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> paths_of(const std::string& file) {
  std::vector<std::string> paths{folder + "/data/" + file};
  const auto found = companions.find(file);
  if (found == companions.end()) return paths;
  for (const std::string& other : found->second) paths.push_back(folder + "/data/" + other);
  return paths;
}

// The result of a config in one line: the fields, the open questions, or the refused keys.
std::string said_of(const std::string& file, const ConfigAnswers& answers = {}) {
  try {
    const ImportedConfig config = imported_config(paths_of(file), answers);
    std::string text;
    for (const ScenarioField& field : config.fields)
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", field.path, field.value);
    std::string asked;
    for (const OpenQuestion& question : config.asked) asked += " " + question.field;
    return text + (asked.empty() ? "" : "; asked:" + asked);
  } catch (const ConfigError& error) {
    std::string text = "refused:";
    for (const Diagnostic& diagnostic : error.diagnostics())
      text += " " + (diagnostic.field.empty() ? diagnostic.message : diagnostic.field);
    return text;
  }
}

std::map<std::string, std::string> expected() {
  std::map<std::string, std::string> lines;
  for (const auto& [file, node] : Node::parse_file(folder + "/expected.yaml").entries())
    lines[file] = node.scalar();
  return lines;
}

TEST(TrainingConfigs, SayWhatIsWrittenDown) {
  if (std::getenv("LOCKSTEP_WRITE_GOLDEN")) {
    std::ofstream out(folder + "/expected.yaml");
    out << "# What each config of data/ says, or why it is refused.\n";
    for (const std::string& file : config_files())
      out << fmt::format("{}: \"{}\"\n", file, said_of(file));
  }
  const auto lines = expected();
  for (const std::string& file : config_files()) {
    const auto found = lines.find(file);
    ASSERT_NE(found, lines.end()) << file;
    EXPECT_EQ(said_of(file), found->second) << file;
  }
  EXPECT_EQ(lines.size(), config_files().size());
}

int values_in(const Node& node) {
  if (node.kind() == Node::Kind::map) {
    int sum = node.entries().empty() ? 1 : 0;
    for (const auto& [key, value] : node.entries()) sum += values_in(value);
    return sum;
  }
  int sum = 0;
  bool plain = true;
  for (const Node& element : node.elements()) {
    plain = plain && element.kind() != Node::Kind::map && element.kind() != Node::Kind::sequence;
    sum += values_in(element);
  }
  return node.kind() == Node::Kind::sequence && !plain ? sum : 1;
}

TEST(TrainingConfigs, EveryKeyIsAccountedFor) {
  ConfigAnswers answers;
  answers.leave_out = {"all"};
  for (const std::string& file : config_files()) {
    // only MODEL_ARGS belongs to the program
    const bool sections = file.starts_with("megatron_yaml/");
    if (file.find("not_json") != std::string::npos || sections) continue;
    ImportedConfig config;
    try {
      config = imported_config(paths_of(file), answers);
    } catch (const ConfigError&) {
      continue;  // a file to which it points is missing, or keys contradict each other
    }
    int values = 0;
    for (const std::string& path : paths_of(file)) values += values_in(config_document(path).root);
    EXPECT_EQ(static_cast<int>(config.keys.size()), values) << file;
    for (const KeyAccount& account : config.keys) {
      EXPECT_NE(account.fate, KeyFate::unknown) << file << ": " << account.key;
      EXPECT_FALSE(account.meaning.empty()) << file << ": " << account.key;
      EXPECT_GT(account.where.line, 0) << file << ": " << account.key;
    }
  }
}

TEST(TrainingConfigs, GiveScenariosThatRead) {
  int scenarios = 0;
  for (const std::string& file : config_files()) {
    ConfigAnswers answers;
    answers.platform = "dgx-h100";
    for (int attempt = 0; attempt < 3; ++attempt) {
      ImportedConfig config;
      try {
        config = imported_config(paths_of(file), answers);
      } catch (const ConfigError&) {
        break;
      }
      for (const OpenQuestion& question : config.asked) {
        if (question.field == "model") answers.model = "llama3-8b";
        if (question.field == "batch.micro") answers.micro = 2;
        if (question.field == "gpus") answers.gpus = 32;
      }
      const bool open =
          std::any_of(config.asked.begin(), config.asked.end(),
                      [](const auto& question) { return question.field != "precision"; });
      if (open) continue;
      config.asked.clear();
      EXPECT_NO_THROW(read_scenario_text(askable_scenario_text(config), file)) << file;
      EXPECT_NO_THROW(read_scenario_text(scenario_text(config), file)) << file;
      ++scenarios;
      break;
    }
  }
  EXPECT_GT(scenarios, 100);
}

TEST(TrainingConfigs, AnswersWinOverTheFiles) {
  ConfigAnswers answers;
  answers.gpus = 64;
  answers.micro = 3;
  answers.sequence = 512;
  answers.model = "llama3-8b";
  const std::string said = said_of("nanotron/tiny_llama_dp4_tp2.yaml", answers);
  for (const char* part : {"gpus 64", "batch.micro 3", "input.sequence 512", "model llama3-8b"})
    EXPECT_THAT(said, testing::HasSubstr(part));
}

TEST(TrainingConfigs, RefusedKeysCanBeLeftOut) {
  ConfigAnswers answers;
  answers.leave_out = {"lora_rank"};
  EXPECT_EQ(said_of("llamafactory/gptq_lora.yaml"), "refused: lora_rank");
  EXPECT_THAT(said_of("llamafactory/gptq_lora.yaml", answers),
              testing::HasSubstr("batch.accumulation 8"));
}

}  // namespace
}  // namespace lockstep::configs_test
