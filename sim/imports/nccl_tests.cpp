// Joins the runs of nccl-tests to one curve for each collective, number of ranks and number of
// nodes. A file that begins with `{` is JSON; any other file is a table.
#include "imports/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/errors.hpp"
#include "core/file_text.hpp"
#include "core/statistics.hpp"
#include "costs/nccl_tuning.hpp"

namespace lockstep {
namespace {

std::vector<std::string> collective_names() {
  return {EnumNames<Collective>::names.begin(), EnumNames<Collective>::names.end()};
}

// The collective that a program of nccl-tests measures; nothing for programs whose operation has no
// cost in the simulator (gather, scatter, hypercube).
std::optional<std::string> collective_of(std::string program) {
  if (const auto end = program.find("_perf"); end != std::string::npos) program.resize(end);
  static const std::map<std::string, std::string> renamed{{"sendrecv", "send_recv"},
                                                          {"alltoall", "all_to_all"}};
  if (const auto found = renamed.find(program); found != renamed.end()) return found->second;
  const auto names = collective_names();
  if (std::find(names.begin(), names.end(), program) != names.end()) return program;
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& file, const NcclTestsRun& run,
                         const std::string& message, const std::string& hint) {
  throw ConfigError(Diagnostic{{file, run.line, 1}, "", message, hint});
}

// The collective of a run, from the name of its program or from the options.
std::string collective_name(const NcclTestsRun& run, const NcclTestsOptions& options,
                            const std::string& file) {
  if (!run.program.empty()) {
    if (const auto name = collective_of(run.program)) return *name;
    refuse(file, run, in_quotes(run.program) + " measures nothing the simulator prices",
           "all_reduce_perf, all_gather_perf, reduce_scatter_perf, broadcast_perf, "
           "reduce_perf, alltoall_perf or sendrecv_perf");
  }
  if (!options.collective.empty()) return options.collective;
  refuse(file, run, "does not say which program wrote it (nccl-tests before 2.17)",
         fmt::format("give it: --collective {}", fmt::join(collective_names(), "|")));
}

// Throws ConfigError for a name in the options that is no collective.
void check_collective(const std::string& name) {
  const auto names = collective_names();
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  throw file_error("", "--collective", fmt::format("unknown collective {}", in_quotes(name)),
                   allowed_hint(name, names));
}

// The number of ranks of a run. Throws ConfigError for one rank, which measures copies on one GPU
// and no communication. That happens if nccl-tests was built without MPI, because it then starts
// independent processes with one rank each.
int known_ranks(const NcclTestsRun& run, const NcclTestsOptions& options, const std::string& file) {
  const int ranks = options.ranks > 0 ? options.ranks : run.ranks;
  if (ranks > 1) return ranks;
  if (ranks == 1)
    refuse(file, run, "measured with one rank only: nothing was communicated",
           "build nccl-tests with MPI=1, or use -g");
  refuse(file, run, "does not say how many ranks took part", "give it: --ranks N");
}

void keep_first(std::string& kept, const std::string& value) {
  if (kept.empty()) kept = value;
}

}  // namespace

NcclTestsImport import_nccl_tests(const std::vector<std::string>& files,
                                  const NcclTestsOptions& options) {
  check_collective(options.collective);
  NcclTestsImport result;
  // Seconds by collective, ranks and nodes, and then by size. Several files may contribute to a
  // curve.
  std::map<std::tuple<std::string, int, int>, std::map<double, std::vector<double>>> curves;
  bool repeated = false;
  for (const std::string& file : files) {
    const std::string text = file_text(file, most_of_a_table);
    const auto first = text.find_first_not_of(" \t\r\n");
    const bool json = first != std::string::npos && text[first] == '{';
    const auto runs = json ? read_nccl_tests_json(text, file) : read_nccl_tests_text(text, file);
    for (const NcclTestsRun& run : runs) {
      const std::string name = collective_name(run, options, file);
      const int ranks = known_ranks(run, options, file);
      const int nodes = options.nodes > 0 ? options.nodes : std::max(run.nodes, 1);
      if (nodes > ranks)
        throw file_error(file, "--nodes", fmt::format("{} nodes for {} ranks", nodes, ranks));
      auto& curve = curves[{name, ranks, nodes}];
      for (const NcclTestsRow& row : run.rows) {
        auto& times = curve[row.bytes];
        times.push_back(row.seconds);
        repeated |= times.size() > 1;
      }
      if (!run.finished)
        result.notes.push_back(fmt::format(
            "{}: {} has no closing summary: the run may have been cut off", file, name));
      keep_first(result.device, run.device);
      keep_first(result.nccl_version, run.nccl_version);
      keep_first(result.date, run.date);
    }
  }
  for (const auto& [key, sizes] : curves) {
    ProfileCollective curve{std::get<0>(key), "nccl", std::get<1>(key), std::get<2>(key), {}};
    for (const auto& [bytes, times] : sizes) curve.points.push_back({bytes, median(times)});
    result.curves.push_back(std::move(curve));
  }
  result.notes.insert(result.notes.begin(), "times are taken from the out-of-place columns");
  if (repeated)
    result.notes.push_back("sizes measured more than once are the median of their times");
  return result;
}

}  // namespace lockstep
