// lockstep-calibrate collectives: starts the ranks, gathers what they measured, prints and keeps
// it.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "cli/verbs.hpp"
#include "core/errors.hpp"
#include "core/statistics.hpp"
#include "imports/profile_folder.hpp"
#include "launch/machine_state.hpp"
#include "launch/network.hpp"
#include "launch/processes.hpp"
#include "probes/collective_report.hpp"
#include "torch/versions.hpp"

namespace lockstep {

namespace {

struct Options {
  int ranks = 2;
  std::string sizes = "4KiB..64MiB", network = "loopback", collectives, backend = "gloo";
  std::string folder, device_file = "cpu-core";
  double seconds = 8;
  bool json = false;
};

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
    if (json.is_discarded()) break;  // the line that was being written when the rank was ended
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

// Keeps what the profile holds of other things; returns its path.
std::string save(const CollectiveReport& report, const Options& options,
                 const std::vector<RankProcess>& ranks) {
  Profile profile = open_profile(options.folder, options.device_file);
  if (profile.date.empty()) profile.date = today();
  // One host and several are measured one after the other into one profile.
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
    fmt::print(stderr, "dropped {} curves of {} nodes that were measured over {}\n", dropped,
               report.nodes, before);
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

int run(const Options& options) {
  const double rate = network_rate(options.network);
  parse_sizes(options.sizes);  // say what is wrong before anything starts
  parse_collectives(options.collectives);
  check_backend(options.backend);
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
  fmt::print(stderr, "measuring collectives between {} processes over {} ...\n", options.ranks,
             report.network);
  const LaunchEnd end = run_processes(ranks);
  if (end.how == LaunchEnd::How::failed) {
    fmt::print(stderr, "lockstep-calibrate: {}\n", end.message);
    return end.exit_code == 2 ? 2 : 1;
  }
  report.complete = end.how == LaunchEnd::How::finished;
  report.points = read_points(folder.result_file(0));
  print(options.json ? collective_json(report).dump(2) + "\n" : collective_table(report));
  if (!options.folder.empty() && !report.points.empty()) {
    fmt::print(stderr, "{} {}\n", report.complete ? "wrote" : "interrupted; wrote what there is to",
               save(report, options, ranks));
  } else if (!report.complete) {
    fmt::print(stderr, "interrupted; what was measured is above\n");
  }
  if (!report.complete) return exit_interrupted;
  return report.wrong() == 0 ? 0 : 1;
}

}  // namespace

void add_collectives(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<Options>();
  auto* verb = app.add_subcommand(
      "collectives", "Measure collectives between processes, in the table layout of nccl-tests");
  verb->add_option("--ranks", options->ranks, "Processes")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  verb->add_option("--sizes", options->sizes, "FIRST..LAST in steps of two, or a list 4KiB,1MiB")
      ->capture_default_str();
  verb->add_option("--network", options->network,
                   "loopback, or a rate such as 1Gbit (needs root: network namespaces)")
      ->capture_default_str();
  verb->add_option("--collectives", options->collectives,
                   "all_reduce,all_gather,reduce_scatter,broadcast,send_recv (default: all)");
  verb->add_option("--seconds", options->seconds, "For one size, about, however noisy it is")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  verb->add_option("--backend", options->backend, "Library: gloo (NCCL: lockstep-calibrate-cuda)")
      ->capture_default_str();
  verb->add_option("--as", options->device_file, "Device file that the profile belongs to")
      ->capture_default_str();
  verb->add_option("-o,--output", options->folder, "Folder whose profile.yaml gets the curves");
  verb->add_flag("--json", options->json, "One JSON document");
  verb->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace lockstep
