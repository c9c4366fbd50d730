// Implements `lockstep calibrate collectives`: starts the ranks, reads their measurements, and
// prints and stores them. After Ctrl-C, points that are already measured are kept.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "cli/declarations.hpp"
#include "cli/verbs.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "core/statistics.hpp"
#include "imports/profile_folder.hpp"
#include "launch/machine_state.hpp"
#include "launch/network.hpp"
#include "launch/processes.hpp"
#include "probes/collective_report.hpp"
#include "torch/versions.hpp"

namespace lockstep {

namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  ::localtime_r(&now, &date);
  return fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

std::vector<CollectivePoint> read_points(const std::filesystem::path& file) {
  std::vector<CollectivePoint> points;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) break;  // an incomplete line of a rank that was ended
    points.push_back(point_from_json(json));
  }
  return points;
}

void check_backend(const std::string& backend) {
  if (backend == "gloo") return;
  if (backend == "nccl") {
    throw file_error("", "--backend", "NCCL is not measured by this program",
                     "lockstep-calibrate-cuda --probes collectives -o FOLDER, or lockstep "
                     "import-collectives for the output of nccl-tests");
  }
  throw file_error("", "--backend", fmt::format("{} is not known", in_quotes(backend)),
                   allowed_hint(backend, {"gloo"}));
}

// Merges the curves into the profile, whose other parts stay, and returns its path.
std::string save(const CollectiveReport& report, const CollectivesText& options,
                 const std::vector<RankProcess>& ranks) {
  Profile profile = open_profile(options.folder, options.device_file);
  if (profile.date.empty()) profile.date = today();
  // A profile may have collectives within one host and between hosts, so the settings of each have
  // their own names.
  const auto name = [&](const char* what) {
    return report.nodes == 1 ? fmt::format("collectives_{}", what)
                             : fmt::format("collectives_{}_nodes_{}", report.nodes, what);
  };
  const std::string before = setting_of(profile, name("network"));
  const bool same_network = before.empty() || before == report.network;
  if (!same_network) {
    const auto dropped = std::erase_if(profile.collectives, [&](const ProfileCollective& curve) {
      return curve.backend == report.backend && curve.nodes == report.nodes;
    });
    print_error("dropped {} curves of {} nodes that were measured over {}\n", dropped, report.nodes,
                before);
  }
  merge_collectives(profile, collective_curves(report), report.complete);
  for (const auto& version : library_versions()) {
    set_version(profile, version.name, version.version);
  }
  for (const auto& variable : ranks.front().environment) {
    set_setting(profile, variable.name, variable.value);
  }
  const MachineDescription machine = describe_machine();
  set_setting(profile, "cpu", machine.cpu);
  set_setting(profile, "cores", std::to_string(machine.cores));
  set_setting(profile, "kernel", machine.kernel);
  if (!machine.governor.empty()) set_setting(profile, "governor", machine.governor);
  set_setting(profile, "collectives_pinned", "rank to core, rank modulo cores");
  set_setting(profile, name("network"), report.network);
  set_setting(profile, name("date"), today());
  set_setting(profile, name("complete"), report.complete ? "yes" : "no, interrupted");
  const auto busy = std::count_if(report.points.begin(), report.points.end(),
                                  [](const auto& point) { return point.disturbed; });
  set_setting(profile, name("disturbed_points"),
              fmt::format("{} of {}", busy, report.points.size()));
  if (profile.noise.samples == 0) {
    std::vector<double> spreads;
    profile.noise.samples = report.points.front().repetitions;
    for (const auto& point : report.points) {
      spreads.push_back(point.relative_spread);
      profile.noise.samples = std::min(profile.noise.samples, point.repetitions);
    }
    profile.noise.relative_spread = median(spreads);
  }
  return save_profile(options.folder, profile);
}

int run(const CollectivesText& options) {
  const double rate = network_rate(options.network);
  parse_sizes(options.sizes);  // reports errors before ranks start
  parse_collectives(options.collectives);
  check_backend(options.backend);
  if (!(options.seconds >= 0)) throw file_error("", "--seconds", "is no time", "for example 8");
  open_profile(options.folder, options.device_file);

  CollectiveReport report;
  report.backend = options.backend;
  report.ranks = options.ranks;
  report.nodes = rate > 0 ? options.ranks : 1;
  report.network = rate > 0 ? fmt::format("{:g} Gbit/s", 8e-9 * rate) : "loopback";

  const InterruptGuard guard;
  std::optional<LinkedHosts> hosts;
  if (rate > 0) hosts.emplace(options.ranks, rate);
  const RunFolder folder;
  auto ranks = pinned_ranks(options.ranks, [&](int rank) {
    return worker_arguments(
        "collectives",
        {std::to_string(rank), std::to_string(options.ranks), folder.file("store").string(),
         hosts ? hosts->host(rank).address : "127.0.0.1", folder.result_file(rank).string(),
         options.collectives, options.sizes, std::to_string(options.seconds),
         hosts ? "on-hosts-of-their-own" : "on-this-host"});
  });
  if (hosts) hosts->place(ranks);
  print_error("measuring collectives between {} processes over {} ...\n", options.ranks,
              report.network);
  const LaunchEnd end = run_processes(ranks);
  if (end.how == LaunchEnd::How::failed) {
    if (end.exit_code != 2) throw_failure(end, end.message);
    print_error("lockstep-calibrate: {}\n", end.message);
    return 2;
  }
  report.complete = end.how == LaunchEnd::How::finished;
  report.points = read_points(folder.result_file(0));
  print(options.json ? collective_json(report).dump(2) + "\n" : collective_table(report));
  if (!options.folder.empty() && !report.points.empty()) {
    print_error("{} {}\n", report.complete ? "wrote" : "interrupted; wrote the results so far to",
                save(report, options, ranks));
  } else if (!report.complete) {
    print_error("interrupted; the results so far are above\n");
  }
  if (!report.complete) return exit_interrupted;
  return report.wrong() == 0 ? 0 : 1;
}

}  // namespace

void add_collectives(CLI::App& calibrate, Chosen& chosen) {
  const auto text = std::make_shared<CollectivesText>();
  declare_collectives(calibrate, *text)->callback([text, &chosen] {
    chosen = [text] { return run(*text); };
  });
}

}  // namespace lockstep
