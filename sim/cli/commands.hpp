// The verbs of the command line, one .cpp each. Results go to stdout, everything else to stderr.
// Each returns the exit code: 0 done, 1 a fault of ours, 2 wrong input, 3 nothing fits, 4 a gate
// failed, 5 a rank was killed; main() 74 when the answer cannot be written.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/output.hpp"
#include "imports/nccl_tests.hpp"
#include "questions/run.hpp"

namespace lockstep {

enum class Format { text, json, csv, markdown };

struct CommonOptions {
  Format format = Format::text;
  int workers = 0;  // 0 = one per core
};

int run_command(const std::string& file, const CommonOptions& options);
int check_command(const std::vector<std::string>& files, const CommonOptions& options);
int compare_command(const std::vector<std::string>& files, const CommonOptions& options);
int list_command(const std::string& what, const CommonOptions& options);
int export_command(const std::string& file);
int export_layers_command(const std::string& file);
int schema_command(const std::string& what, bool fields);
struct ValidateOptions {
  std::optional<double> max_error;  // of a single row; more fails
  bool summary_only = false;        // text and Markdown: leave the table of rows out
};
int validate_command(const std::vector<std::string>& files, const ValidateOptions& validate,
                     const CommonOptions& options);
int explain_command(const std::vector<std::string>& files, const CommonOptions& options);

struct SweepArguments {
  std::vector<std::string> settings;  // "PATH=VALUES"
  std::size_t sample = 0;             // 0 = all points
  std::uint64_t seed = 1;
  std::string shard;                     // "K/N"; "" = all
  std::string time_limit, memory_limit;  // of one point; "" = none
  bool retry_failed = false;
  std::string output;              // "" = print
  std::vector<std::string> merge;  // files of shards, instead of a sweep
};
int sweep_command(const std::string& file, const SweepArguments& arguments,
                  const CommonOptions& options);

struct ImportCollectivesOptions {
  NcclTestsOptions input;
  std::string device;  // "" = as the files say
  std::string folder;  // of the profile to add to; "" = print
};
int import_collectives_command(const std::vector<std::string>& files,
                               const ImportCollectivesOptions& options);
struct ImportTraceOptions {
  std::string model, precision = "fp32", device, folder;
  std::int64_t batch = 0;
  std::vector<std::int64_t> image;  // empty, 0 = the model's default
  std::int64_t sequence = 0, classes = 0;
};
int import_trace_command(const std::string& file, const ImportTraceOptions& options);

bool something_fits(const std::vector<Prediction>& predictions);  // into memory
// Of the whole record, on stderr.
void tell_warnings(const ResultRecord& record);
// What kept points from an answer, on stderr; the exit code that follows: 1 if anything did.
int tell_failures(const std::vector<Failure>& failures);

// One line on stderr that says how far it is, only on a terminal and only when it takes a while.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  void update(const RunProgress& progress);
  // Of many alike, some of which (`before`) were done at the start.
  void update_rate(std::size_t done, std::size_t all, std::size_t before);
  void clear();
  RunOptions run_options(int workers);

 private:
  void show(const std::string& text);

  std::string what_;
  bool terminal_;
  double started_;
  double shown_ = 0;  // when; 0 = never
};

}  // namespace lockstep
