// What several verbs tell and print. Results go to stdout, everything else to stderr. Exit codes:
// 0 done, 1 a fault of ours, 2 wrong input, 3 nothing fits, 4 a gate failed, 5 a rank was killed, 74
// the answer cannot be written.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/output.hpp"
#include "questions/run.hpp"
#include "results/table.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

enum class Format { text, json, csv, markdown, openmetrics };

struct CommonOptions {
  Format format = Format::text;
  int workers = 0;                      // 0 = one per core
  std::vector<std::string> settings{};  // "PATH=VALUES"
};

// With the settings instead of what the file says; `-` is standard input. Throws ConfigError.
Scenario scenario_of(const std::string& file, const CommonOptions& options);

// In the format that was asked for; text where there is none such of a table. Text that is too wide for
// the terminal goes on below itself, in blocks that begin with the first `keys` columns.
std::string rendered(const Table& table, Format format, std::size_t keys = 1);

class ProgressLine;
struct ReplaysOptions;
// Of real trainings that `verb` asks for.
ReplaysOptions training_options(const char* verb, ProgressLine& progress, int workers);

// All that `run` shows of a scenario: predictions, and accuracy where it asks for it.
ResultRecord record_of(const Scenario& scenario, const CommonOptions& options);

// An answer for people. On a terminal what matters stands out, unless NO_COLOR is set.
void print_text(const std::string& text);

// "1 point", "3 points".
template <class Count>
std::string counted(Count count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// On stderr, unless --quiet asks for errors alone.
void note(const std::string& text);
bool& quiet();

// `text` as the file, said on stderr; "-" = stdout. Throws OutputError.
void write_answer(const std::string& path, const std::string& text);
// An answer in the place of its own question would be a loss: throws ConfigError about `option`.
void keep_inputs(const std::vector<std::string>& inputs, const char* option,
                 const std::string& output);

bool something_fits(const std::vector<Prediction>& predictions);  // into memory
// Of the whole record, on stderr.
void tell_warnings(const ResultRecord& record);
// What kept points from an answer, on stderr; the exit code that follows: 1 if anything did.
int tell_failures(const std::vector<Failure>& failures);

// One line on stderr that says how far it is, only when it takes a while. Elsewhere than on a terminal a
// line now and then, the first after ten seconds.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  void update(const RunProgress& progress);
  // Of many alike, some of which (`before`) were done at the start.
  void update_rate(std::size_t done, std::size_t all, std::size_t before);
  void clear();
  void restart();  // the remaining time is that of what begins now
  RunOptions run_options(int workers);

 private:
  // Seconds since the beginning, where it is time to say something; 0 = not now.
  double due() const;
  void show(const std::string& text);

  std::string what_;
  bool terminal_;
  double started_;
  double shown_ = 0;  // when; 0 = never
  double next_ = 10;  // seconds from the beginning, where there is no terminal
};

std::string layers_json(const Scenario& scenario);
// Live bytes by kind at each moment of a step, and the tensors at the peak, of every point.
std::string memory_json(const Scenario& scenario);

}  // namespace lockstep
