// Does the program accept the commands that docs/recorded.yaml gives for its figures, and do
// docs/accuracy*.md show tables of recorded figures only?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "scenario/alternatives.hpp"
#include "source_dir.hpp"
#include "sweep/override.hpp"

namespace lockstep::recorded_test {
namespace {

const std::string root = LOCKSTEP_SOURCE_DIR "/";

// The words of a command, as a shell splits them; double quotes only.
std::vector<std::string> words(const std::string& command) {
  std::vector<std::string> list{""};
  bool quoted = false;
  for (const char c : command) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      list.emplace_back();
    } else {
      list.back() += c;
    }
  }
  return list;
}

// Parses the command without running it. Throws ConfigError if the program would refuse it.
void ask(const std::string& command) {
  const std::vector<std::string> said = words(command);
  if (said.size() < 3 || said[0] != "lockstep" || said[1] != "run") {
    EXPECT_TRUE(std::filesystem::exists(root + said[0])) << command;
    return;
  }
  std::vector<std::string> settings;
  for (std::size_t i = 3; i < said.size(); i += 2) {
    if (said[i] == "--json") break;
    ASSERT_EQ(said[i], "--set") << command;
    settings.push_back(said.at(i + 1));
  }
  read_alternatives_node(with_settings(Node::parse_file(root + said[2]), settings), said[2]);
}

TEST(Recorded, IsPrintedByCommandsThatTheProgramTakes) {
  int commands = 0;
  for (const auto& [name, table] : Node::parse_file(root + "docs/recorded.yaml").entries()) {
    const auto printed_by = table.find("printed_by");
    if (!printed_by) continue;
    for (const Node& command : printed_by->elements()) {
      EXPECT_NO_THROW(ask(command.scalar())) << name << ": " << command.scalar();
      ++commands;
    }
  }
  EXPECT_GT(commands, 5);
}

TEST(AccuracyPages, ShowTablesOfRecordedFiguresOnly) {
  for (const std::string name : {"accuracy", "accuracy-results"}) {
    std::ifstream page(root + "docs/" + name + ".md");
    EXPECT_TRUE(page.good()) << name;
    bool recorded = false;
    for (std::string line; std::getline(page, line);) {
      if (line.starts_with("<!-- begin: ")) recorded = true;
      if (line.starts_with("<!-- end -->")) recorded = false;
      if (recorded) continue;
      EXPECT_FALSE(line.starts_with("|") && line.find('%') != std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace lockstep::recorded_test
