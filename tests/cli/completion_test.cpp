// Do shell completion and the manual page work as a shell and a reader of roff use them?
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "process.hpp"

namespace lockstep::completion_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Bash's candidates for the last word of `words`.
std::vector<std::string> offered(const std::string& words) {
  const std::string script =
      test_folder().write("lockstep.bash", lockstep({"completion", "bash"}).out);
  const Outcome outcome = shell(
      "PATH=$(dirname \"$LOCKSTEP\"):$PATH bash -c 'source " + script + "; COMP_WORDS=(lockstep " +
      words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _lockstep; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  EXPECT_EQ(outcome.err, "");
  std::vector<std::string> list;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) list.push_back(line);
  return list;
}

TEST(Completion, BashOffersVerbsOptionsAndValues) {
  EXPECT_THAT(offered("re"), ElementsAre("recommend", "replay", "report"));
  EXPECT_THAT(offered("run --so"), ElementsAre("--sort"));
  EXPECT_THAT(offered("run --sort m"), ElementsAre("memory"));
  EXPECT_THAT(offered("run --trace-format \"\""), ElementsAre("chakra", "kineto"));
  EXPECT_THAT(offered("list pl"), ElementsAre("platforms"));
  EXPECT_THAT(offered("calibrate coll"), ElementsAre("collectives"));
  EXPECT_THAT(offered("recommend a.yaml --platforms p4"),
              ElementsAre("p4d.24xlarge", "p4de.24xlarge"));
  const std::string file = test_folder().write("a-scenario.yaml", "");
  EXPECT_THAT(offered("run " + file.substr(0, file.size() - 3)), ElementsAre(file));
}

// The program's answer to the shells' scripts: a word, a tab and a help text per line.
std::string asked(const std::string& words) {
  return shell("\"$LOCKSTEP\" completion words -- " + words).out;
}

TEST(Completion, EveryShellAsksTheProgramWhichAnswersWithHelp) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(lockstep({"completion", shell}).out, HasSubstr("lockstep completion words -- "));
  }
  EXPECT_THAT(asked("expl"), testing::MatchesRegex("explain\t[^\n]+\n"));
  EXPECT_THAT(asked("run --so"), testing::MatchesRegex("--sort\t[^\n]+\n"));
  EXPECT_EQ(asked("run --sort c"), "cost\n");
  EXPECT_EQ(asked("run a-file"), "");
  EXPECT_EQ(asked("no-verb a"), "");
}

// Every long option in the --help of a verb.
std::set<std::string> options_of(const std::string& verb) {
  const std::string help = lockstep({verb, "--help"}).out;
  std::set<std::string> options;
  const std::regex option("\\n  (?:-[a-z],)?(--[a-z-]+)");
  for (auto at = std::sregex_iterator(help.begin(), help.end(), option);
       at != std::sregex_iterator(); ++at) {
    options.insert((*at)[1]);
  }
  return options;
}

TEST(Completion, AnswersAndTheManualKnowWhatHelpKnows) {
  const std::string page = lockstep({"man"}).out;
  for (const char* verb :
       {"run", "check", "compare", "explain", "validate", "sweep", "recommend", "report", "cluster",
        "calibrate", "train", "closed-loop", "acceptance", "list"}) {
    const std::string answer = "\n" + asked(std::string(verb) + " -");
    EXPECT_EQ(answer.find("->"), std::string::npos);
    const std::set<std::string> options = options_of(verb);
    EXPECT_FALSE(options.empty()) << verb;
    for (const std::string& option : options) {
      SCOPED_TRACE(std::string(verb) + " " + option);
      EXPECT_THAT(answer, HasSubstr("\n" + option + "\t"));
      EXPECT_THAT(page, HasSubstr(std::regex_replace(option, std::regex("-"), "\\-")));
    }
  }
}

TEST(Completion, TheManualPageIsCleanRoff) {
  const std::string page = test_folder().write("lockstep.1", lockstep({"man"}).out);
  const Outcome outcome =
      shell("command -v groff >/dev/null || exit 77; groff -man -Tascii -ww " + page);
  if (outcome.code == 77) GTEST_SKIP() << "no groff";
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("predict what distributed training"));
}

TEST(Completion, OtherShellsAreRefused) {
  const Outcome outcome = lockstep({"completion", "tcsh"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("tcsh"));
}

}  // namespace
}  // namespace lockstep::completion_test
