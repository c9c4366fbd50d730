// Functions that several verbs (subcommands such as `run`) share: reading scenarios, printing
// answers, progress. Every verb uses them, so that output and exit codes agree. Results go to
// stdout, notes and progress to stderr.
//
// Exit codes (docs/command-line.md):
//   0 done   1 a defect of the program   2 wrong input   3 nothing fits   4 an error limit exceeded
//   5 a rank was killed   74 the answer cannot be written   130 interrupted
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/output.hpp"
#include "questions/run.hpp"
#include "results/table.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The format of an answer: text is for people, the other formats are for programs.
enum class Format { text, json, csv, markdown, openmetrics };

// Options that most verbs have (verb.hpp declares them).
struct CommonOptions {
  Format format = Format::text;
  int workers = 0;                      // 0 = one per core
  std::vector<std::string> settings{};  // "PATH=VALUES" of each --set
};

// Reads the scenario of a file; `-` is standard input. The settings of `options` replace values of
// the file. Throws ConfigError if the scenario is wrong.
Scenario scenario_of(const std::string& file, const CommonOptions& options);

// The table in the requested format, or as text if tables do not have that format. If the text is
// too wide for the terminal, it is divided into blocks, and each block begins with the first `keys`
// columns.
std::string rendered(const Table& table, Format format, std::size_t keys = 1);

class ProgressLine;
struct ReplaysOptions;
// Options of the real trainings that `verb` starts for `convergence`.
// REQUIRES: `progress` outlives the options.
ReplaysOptions training_options(const char* verb, ProgressLine& progress, int workers);

// The complete answer of `run` for a scenario: predictions, and accuracy if the scenario has
// `convergence`. Shows progress. Throws ConfigError if the scenario is wrong.
ResultRecord record_of(const Scenario& scenario, const CommonOptions& options);

// Prints an answer for people. On a terminal, important parts are coloured unless NO_COLOR is set.
void print_text(const std::string& text);

// "1 point", "3 points".
template <class Count>
std::string counted(Count count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Prints a note on stderr unless --quiet is given.
void note(const std::string& text);
// Whether --quiet is given.
bool& quiet();

// Writes `text` to the file and prints a note; "-" is stdout, without a note. Throws OutputError if
// the file cannot be written.
void write_answer(const std::string& path, const std::string& text);
// Throws ConfigError about `option` if `output` is one of the inputs, which it would overwrite.
void keep_inputs(const std::vector<std::string>& inputs, const char* option,
                 const std::string& output);

// Whether some prediction fits into memory. If none does, verbs end with exit code 3.
bool something_fits(const std::vector<Prediction>& predictions);
// Prints the record's warnings as notes.
void tell_warnings(const ResultRecord& record);
// Prints the reasons of points without an answer on stderr. Returns the exit code: 1 if there is
// such a point, otherwise 0.
int tell_failures(const std::vector<Failure>& failures);

// One line of progress on stderr, only during long work and without --quiet. On a terminal the line
// is redrawn several times a second. Otherwise a line is printed after ten seconds, and again
// whenever the time has doubled.
class ProgressLine {
 public:
  // `what` names the activity, such as "simulating".
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  // Shows the progress of points if a line is due.
  void update(const RunProgress& progress);
  // Shows the progress of many similar items, if a line is due. `before` items were complete at the
  // start.
  void update_rate(std::size_t done, std::size_t all, std::size_t before);
  // Removes the line.
  void clear();
  void restart();  // measures time from this call on
  // Options of a run that reports to this line.
  // REQUIRES: the line outlives the options.
  RunOptions run_options(int workers);

 private:
  // Seconds since the start if a line is due; 0 if none is due.
  double due() const;
  void show(const std::string& text);

  std::string what_;
  bool terminal_;
  double started_;
  double shown_ = 0;  // time of the latest line; 0 = none is shown
  // Without a terminal: seconds from the start until the next line.
  double next_ = 10;
};

// The answer of `export --layers`: the layers of every point's model, and its communication.
std::string layers_json(const Scenario& scenario);
// The answer of `export --memory` for every point: live bytes by kind at each moment of a step, and
// the tensors at the peak.
std::string memory_json(const Scenario& scenario);

}  // namespace lockstep
