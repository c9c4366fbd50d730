// Does the program behave well with wrong command lines, readers that go away, full disks, Ctrl-C
// and absurd sizes?
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "process.hpp"

namespace lockstep::misuse_test {
namespace {

using testing::HasSubstr;

std::string small_scenario() {
  return test_folder().write("small.yaml", scenario_text("gpus: [1, 2]\n"));
}

TEST(Misuse, WrongCommandLinesExitWithTwo) {
  const std::string file = small_scenario();
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {},
           {"rnu", file},
           {"run"},
           {"run", "--jsno", file},
           {"run", file, "--sort", "best"},
           {"run", "--json", "--csv", file},
           {"run", "--json", file, file, "--trace", "t.json"},
           {"run", "-j", "0", file},
           {"run", "-j", "many", file},
           {"check"},
           {"compare", file, file, file},
           {"list"},
           {"list", "gpus"},
           {"schema", "everything"},
           {"export"},
           {"explain"},
           {"validate", "--max-error", "ten"},
           {"validate", "--max-error", "10"},  // a factor of 10 is 1000 %
           {"validate", "--max-error"},
           {"validate", "--sources", "--json"},
           {"validate", "--sources", "--summary"},
       }) {
    const Outcome outcome = lockstep(arguments);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "") << testing::PrintToString(arguments);
    EXPECT_NE(outcome.err, "") << testing::PrintToString(arguments);
  }
}

TEST(Misuse, AMisspeltVerbIsNamed) {
  EXPECT_THAT(lockstep({"rnu", "x.yaml"}).err,
              testing::AllOf(HasSubstr("verb: 'rnu' is not known"), HasSubstr("allowed: "),
                             HasSubstr("did you mean 'run'?")));
}

// Without the measuring half the program prints help about its verbs, but cannot run them.
TEST(Misuse, VerbsOfTheMeasuringHalfNeedIt) {
  EXPECT_THAT(lockstep({"train"}).err, HasSubstr("--model"));
  const Outcome outcome = shell(
      "cd $(mktemp -d) && cp \"$LOCKSTEP\" alone && env -u LOCKSTEP_CALIBRATE ./alone train "
      "--model "
      "lenet5; code=$?; rm -r $PWD; exit $code");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("train: the measuring half is not built"));
  EXPECT_THAT(outcome.err, HasSubstr("./lockstep train"));
}

TEST(Help, IsOfTheVerbAlone) {
  EXPECT_THAT(lockstep({"--help"}).out, HasSubstr("lockstep explain my.yaml"));
  for (const std::string verb :
       {"run", "acceptance", "closed-loop", "calibrate", "calibrate collectives", "train"}) {
    const Outcome outcome =
        shell("env LOCKSTEP_CALIBRATE=/nonexistent \"$LOCKSTEP\" " + verb + " --help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Usage: lockstep " + verb + " ")) << verb;
    EXPECT_THAT(outcome.out, testing::ContainsRegex("Examples?:\n  lockstep " + verb + " "))
        << verb;
    EXPECT_THAT(outcome.out, testing::Not(HasSubstr("lockstep explain my.yaml"))) << verb;
  }
}

TEST(Misuse, HelpAndVersionAreNoMistakes) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"-h"}, {"--version"}, {"run", "--help"}, {"validate", "--help"}}) {
    const Outcome outcome = lockstep(arguments);
    EXPECT_EQ(outcome.code, 0) << testing::PrintToString(arguments);
    EXPECT_NE(outcome.out, "");
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(Output, PipesGetNoColoursAndNoProgress) {
  const Outcome outcome = lockstep({"run", small_scenario()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(outcome.out.find('\r'), std::string::npos);
  EXPECT_EQ(outcome.err, "");
}

// The tool `script` gives the program a terminal.
TEST(Output, ATerminalShowsWhatDoesNotFit) {
  const std::string misfit = test_folder().write(
      "misfit.yaml", scenario_text("model: llama3-70b\ninput: {}\nplatform: a100-sxm4-80gb-x4\n"));
  const auto on_terminal = [&](const std::string& environment) {
    return shell(environment + " script -qec '\"$LOCKSTEP\" run " + misfit + "' /dev/null").out;
  };
  const std::string coloured = on_terminal("NO_COLOR= TERM=xterm");
  EXPECT_THAT(coloured, HasSubstr("\033[31mdoes not fit\033[0m"));
  EXPECT_THAT(coloured, HasSubstr("\033[31mNO, \033[0m"));
  for (const char* plain : {"TERM=xterm NO_COLOR=1", "NO_COLOR= TERM=dumb"}) {
    const std::string text = on_terminal(plain);
    EXPECT_THAT(text, HasSubstr("does not fit"));
    EXPECT_EQ(text.find("\033[31m"), std::string::npos) << plain;
  }
}

TEST(Output, QuietLeavesErrorsOnly) {
  const std::string page = test_folder().write("quiet.html", "");
  const std::vector<std::string> words{"report", small_scenario(), "-o", page};
  EXPECT_EQ(lockstep(words).err, "wrote " + page + "\n");
  std::vector<std::string> quiet = words;
  quiet.push_back("--quiet");
  EXPECT_EQ(lockstep(quiet).err, "");
  EXPECT_THAT(lockstep({"run", "/none.yaml", "-q"}).err, HasSubstr("/none.yaml"));
}

// On a terminal a table that is too wide continues below itself; a pipe gets whole lines.
TEST(Terminal, TablesFitIt) {
  const auto longest = [](const std::string& text) {
    std::size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
    return most;
  };
  const std::string listed = lockstep({"list", "devices"}).out;
  EXPECT_GT(longest(listed), 70u);
  const Outcome narrow =
      shell("script -qec \"stty cols 70; '$LOCKSTEP' list devices\" /dev/null </dev/null");
  EXPECT_EQ(narrow.code, 0);
  EXPECT_THAT(narrow.out, HasSubstr("a100-sxm4-40gb"));
  EXPECT_LT(longest(narrow.out), longest(listed));
}

// With --quiet, a run of more than half a second shows no progress on a terminal either.
TEST(Output, QuietShowsNoProgressEither) {
  const std::string path = test_folder().write(
      "slow.yaml", scenario_text("model: resnet50\nplatform: dgx-a100-80gb-hdr4\ngpus: [512]\n"
                                 "simulation: {steps: 20000}\n"
                                 "stragglers: {per_step: {lognormal: {sigma: 2%}}}\n"));
  const auto on_terminal = [&](const std::string& option) {
    return shell("script -qec '\"$LOCKSTEP\" run -j 1 " + path + option + " >/dev/null' /dev/null")
        .out;
  };
  EXPECT_THAT(on_terminal(""), HasSubstr("simulating "));
  EXPECT_EQ(on_terminal(" --quiet"), "");
}

TEST(Output, AReaderThatGoesAwayIsNoCrash) {
  const Outcome outcome = shell("\"$LOCKSTEP\" run " + small_scenario() + " --json | head -1");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "{\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(Output, AReaderThatHasGoneEndsItQuietly) {
  const Outcome outcome = shell("{ sleep 0.2; \"$LOCKSTEP\" list models; echo $? >&2; } | true");
  EXPECT_EQ(outcome.err, "141\n");
}

// Only notes and errors are lost; the answer and the exit code stay the same.
TEST(Output, AStderrThatCannotBeWrittenChangesNothing) {
  const std::string file = small_scenario();
  const std::string noted = test_folder().write(
      "noted.yaml", scenario_text("gpus: [1]\ndataset: {samples: 10}\nbatch: {per_gpu: 64}\n"));
  for (const char* where : {" 2>&-", " 2>/dev/full"}) {
    EXPECT_EQ(shell("\"$LOCKSTEP\" run /nonexistent.yaml" + std::string(where)).code, 2) << where;
    EXPECT_EQ(shell("\"$LOCKSTEP\" rnu" + std::string(where)).code, 2) << where;
    for (const std::string& words : {"run " + file, "check " + file, "run " + noted}) {
      const Outcome usual = shell("\"$LOCKSTEP\" " + words);
      const Outcome without = shell("\"$LOCKSTEP\" " + words + where);
      EXPECT_EQ(without.code, usual.code) << words << where;
      EXPECT_EQ(without.out, usual.out) << words << where;
    }
  }
}

TEST(Output, AClosedOrFullStdoutIsAnError) {
  for (const char* where : {" >&-", " >/dev/full"}) {
    const Outcome outcome = shell("\"$LOCKSTEP\" run " + small_scenario() + where);
    EXPECT_EQ(outcome.code, 74) << where;
    EXPECT_THAT(outcome.err, HasSubstr("cannot write the answer")) << where;
    for (const char* help : {" --help", " run --help", " --version", " list models"}) {
      EXPECT_EQ(shell(std::string("\"$LOCKSTEP\"") + help + where).code, 74) << help << where;
    }
  }
  for (const char* words : {"--help", "--version", "train --help"}) {
    const Outcome outcome = shell(std::string("\"$LOCKSTEP\" ") + words + " >/dev/full");
    EXPECT_EQ(outcome.code, 74) << words;
    EXPECT_THAT(outcome.err, HasSubstr("cannot write the answer")) << words;
  }
}

// A limit on the file size acts like a disk that is nearly full: the kernel accepts the first bytes
// and refuses the rest. The program must leave neither a cut file nor a changed old one.
TEST(Output, NoFileIsLeftCutOff) {
  const std::string scenario = small_scenario();
  for (const std::string& words :
       {"report " + scenario + " -o page.html", "run " + scenario + " --trace trace.json",
        "run " + scenario + " --trace trace.json.gz"}) {
    for (const char* before : {"", "touch page.html trace.json trace.json.gz; "}) {
      const Outcome outcome =
          shell("cd $(mktemp -d) && " + std::string(before) +
                "trap '' XFSZ; ulimit -f 8; \"$LOCKSTEP\" " + words +
                " > /dev/null; code=$?; ls; find -size +0 -type f; rm -r $PWD; exit $code");
      EXPECT_EQ(outcome.code, 74) << words;
      EXPECT_THAT(outcome.err, HasSubstr("cannot write "));
      EXPECT_THAT(outcome.err, HasSubstr(": File too large\n"));
      EXPECT_EQ(outcome.out, *before == 0 ? "" : "page.html\ntrace.json\ntrace.json.gz\n") << words;
    }
  }
}

// The shell limits the CPU time of each process, and one of two points exceeds it.
TEST(Output, APointThatDiesTakesNoOtherWithIt) {
  const std::string path = test_folder().write(
      "dies.yaml", scenario_text("model: resnet50\nplatform: dgx-a100-80gb-hdr4\ngpus: [1, 512]\n"
                                 "simulation: {steps: 60000}\n"
                                 "stragglers: {per_step: {lognormal: {sigma: 2%}}}\n"));
  const Outcome text = shell("ulimit -t 2; \"$LOCKSTEP\" run " + path);
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, testing::ContainsRegex("ddp +1  [0-9]"));
  EXPECT_THAT(text.out,
              HasSubstr("ddp on 512 GPUs: no prediction: the simulation ended by signal"));
  EXPECT_THAT(text.err, HasSubstr("lockstep: ddp on 512 GPUs: the simulation ended by signal"));
  const Outcome json = shell("ulimit -t 2; \"$LOCKSTEP\" run --json " + path);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["predictions"].size(), 1U);
  ASSERT_EQ(document["failures"].size(), 1U);
  EXPECT_EQ(document["failures"][0]["gpus"], 512);
}

TEST(Output, AClosedStderrOrStdinChangesNothing) {
  const std::string run = "\"$LOCKSTEP\" run " + small_scenario();
  const Outcome plain = shell(run);
  EXPECT_EQ(plain.code, 0);
  for (const char* how : {" 2>&-", " <&-", " <&- 2>&-"}) {
    const Outcome outcome = shell(run + how);
    EXPECT_EQ(outcome.code, 0) << how;
    EXPECT_EQ(outcome.out, plain.out) << how;
  }
}

TEST(Output, TheLocaleChangesNothing) {
  const std::string run = "\"$LOCKSTEP\" run --csv " + small_scenario();
  EXPECT_EQ(shell("LC_ALL=de_DE.UTF-8 " + run).out, shell("LC_ALL=C " + run).out);
}

// A simulation of many seconds: 100,000 steps with jitter at 64 ranks.
std::string long_scenario() {
  return test_folder().write(
      "long.yaml", scenario_text("model: resnet50\nplatform: dgx-a100-80gb-hdr4\ngpus: [512]\n"
                                 "simulation: {steps: 1000000}\n"
                                 "stragglers: {per_step: {lognormal: {sigma: 2%}}}\n"));
}

TEST(Interrupt, CtrlCEndsTheProgramAndItsChildren) {
  // The program leads a process group of its own, and the signal reaches the parent only. A child
  // that survives would keep the pipe open, and the test would hang.
  for (const char* signal : {"INT", "TERM", "KILL"}) {
    const Outcome outcome =
        shell(std::string("timeout --foreground -s ") + signal + " 0.5 \"$LOCKSTEP\" run " +
                  long_scenario() + "; echo ended with $?",
              20);
    EXPECT_LT(outcome.seconds, 3) << signal;
    EXPECT_THAT(outcome.out, HasSubstr("ended with")) << signal;
    EXPECT_EQ(outcome.out.find("ended with 0"), std::string::npos) << signal;
  }
}

TEST(Huge, ThousandsOfGpusAreAnswered) {
  test_folder().write("huge-platform.yaml",
                      "base: dgx-a100-80gb-hdr4\ntitle: huge\nmax_nodes: 512\n");
  const std::string path = test_folder().write(
      "huge.yaml",
      scenario_text("model: resnet50\nplatform: ./huge-platform.yaml\ngpus: 4096\n"
                    "strategies: [ddp, fsdp]\nstragglers: {per_step: {lognormal: {sigma: 2%}}}\n"));
  const Outcome outcome = lockstep({"run", path}, 60);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("4096"));
}

TEST(Huge, AThousandPointsAreAnswered) {
  std::string gpus = "1";
  for (int i = 2; i <= 1000; ++i) gpus += ", " + std::to_string(i);
  const std::string path = test_folder().write(
      "points.yaml", scenario_text("platform: dgx-h100\ngpus: [" + gpus + "]\n"));
  const Outcome outcome = lockstep({"run", "--csv", path}, 60);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1001);
}

}  // namespace
}  // namespace lockstep::misuse_test
