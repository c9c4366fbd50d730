// The program lockstep-calibrate-cuda, which measures a CUDA device without any framework
// (docs/gpu-acceptance.md). It runs the chosen probes, prints their results, and adds them to a
// profile.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "core/command_line.hpp"
#include "core/output.hpp"
#include "cuda/device_probes.hpp"
#include "imports/profile_folder.hpp"
#include "launch/interrupts.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::cuda;

// The exit code that ctest and automake count as "skipped".
constexpr int skipped = 77;

struct Probe {
  const char* name;
  void (*run)(const ProbeOptions&, Measurements&);
};
// In the order of execution. `memory` comes first, because it measures the first context.
constexpr Probe probes[] = {
    {"memory", probe_memory},           {"launch", probe_launch},
    {"copies", probe_copies},           {"gemm", probe_gemm},
    {"convolution", probe_convolution}, {"interference", probe_interference},
    {"collectives", probe_collectives},
};

struct Arguments {
  std::string device = "cuda:0", device_file, folder;
  std::vector<std::string> probes;
  bool quick = false, json = false;
};

int device_index(const std::string& text, int devices) {
  const auto wrong = [&](const std::string& hint) {
    return file_error("", "--device", in_quotes(text) + " is no CUDA device here", hint);
  };
  if (text == "cuda") return 0;
  if (text.rfind("cuda:", 0) != 0 || text.size() == 5 || text.size() > 8 ||
      text.find_first_not_of("0123456789", 5) != std::string::npos)
    throw wrong("allowed: cuda, cuda:0, cuda:1, ...");
  const int index = std::stoi(text.substr(5));
  if (index >= devices) throw wrong(fmt::format("allowed: cuda:0 to cuda:{}", devices - 1));
  return index;
}

std::vector<Probe> chosen_probes(const std::vector<std::string>& wanted) {
  std::vector<std::string> known;
  for (const Probe& probe : probes) known.push_back(probe.name);
  for (const std::string& name : wanted)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw file_error("", "--probes", in_quotes(name) + " is no probe", allowed_hint(name, known));
  std::vector<Probe> chosen;
  for (const Probe& probe : probes)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), probe.name) != wanted.end())
      chosen.push_back(probe);
  return chosen;
}

Device device_model(const std::string& name, const DeviceInfo& info) {
  if (!name.empty()) return load_device(name);
  std::vector<Device> known;
  for (const std::string& other : known_devices()) known.push_back(load_device(other));
  const std::string match =
      matching_device(known, info.compute_capability, info.multiprocessors, info.memory_bytes);
  if (!match.empty()) return load_device(match);
  print_error("no device file fits {}; efficiencies are left out (--as)\n", info.title);
  return {};
}

std::string today() {
  char text[16] = "";
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

// Adds measurements to the profile in the folder, and writes the complete measurements to
// efficiency.yaml there.
void save(const std::string& folder, const Measurements& measurements, bool complete) {
  const Profile found = profile_of(measurements);
  Profile profile = open_profile(folder, found.device, "");  // save_profile() writes it
  profile.date = found.date;
  for (const ProfileVersion& v : found.versions) set_version(profile, v.name, v.version);
  for (const ProfileSetting& s : found.settings) set_setting(profile, s.name, s.value);
  set_setting(profile, "cuda_probes", complete ? "complete" : "partial: some did not finish");
  if (found.host.launch_seconds > 0) profile.host.launch_seconds = found.host.launch_seconds;
  if (found.allocator.context_bytes > 0)
    profile.allocator.context_bytes = found.allocator.context_bytes;
  if (!found.copies.empty()) profile.copies = found.copies;
  merge_collectives(profile, found.collectives);
  print_error("wrote {}\n", save_profile(folder, profile));

  const std::string path = folder + "/efficiency.yaml";
  write_text(path, measurements_text(measurements));
  print_error("wrote {}\n", path);
}

int run(const Arguments& arguments) {
  const std::vector<Probe> chosen = chosen_probes(arguments.probes);
  const Availability available = availability();
  if (available.devices == 0) {
    // A wrong --device is an error even without a device.
    device_index(arguments.device, 1000);
    print_error("no CUDA device: {}; nothing measured\n", available.reason);
    return skipped;
  }
  const InterruptGuard guard;
  ProbeOptions options;
  options.device = device_index(arguments.device, available.devices);
  options.quick = arguments.quick;
  options.stop = InterruptGuard::interrupted;
  options.progress = [](const std::string& line) { print_error("  {}\n", line); };

  Measurements measurements;
  bool complete = true;
  // This must precede device_info() and all other calls, because the memory of a new context can be
  // measured only once.
  const bool memory = std::string(chosen.front().name) == "memory";
  if (memory) probe_memory(options, measurements);
  const DeviceInfo info = device_info(options.device);
  options.model = device_model(arguments.device_file, info);
  measurements.device = options.model.name;
  measurements.title = info.title;
  measurements.date = today();
  measurements.versions = device_versions();
  try {
    for (std::size_t i = memory ? 1 : 0; i < chosen.size(); ++i) {
      print_error("{}\n", chosen[i].name);
      try {
        chosen[i].run(options, measurements);
      } catch (const DeviceError& error) {
        complete = false;
        print_error("{} ended early: {}\n", chosen[i].name, error.what());
      }
    }
  } catch (const Interrupted&) {
    complete = false;
    print_error("interrupted; the results so far are kept\n");
  }
  measurements.settings = device_settings(info);
  if (!arguments.folder.empty()) save(arguments.folder, measurements, complete);
  if (arguments.json) {
    print(measurements_json(measurements).dump(2) + "\n");
  } else {
    print(measurements_tables(measurements));
  }
  if (InterruptGuard::interrupted()) return 130;
  return complete ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures a CUDA device: matrix products, convolutions, copies, launches, memory, NCCL"};
  Arguments arguments;
  app.add_option("--device", arguments.device, "cuda:0, cuda:1, ...")->capture_default_str();
  app.add_option("--as", arguments.device_file,
                 "Device file whose peaks are 100 % (default: the one that fits)");
  app.add_option("--probes", arguments.probes,
                 "memory,launch,copies,gemm,convolution,interference,collectives (default: all)")
      ->delimiter(',');
  app.add_option("-o,--output", arguments.folder, "Folder for profile.yaml and efficiency.yaml");
  app.add_flag("--quick", arguments.quick, "Few sizes: does everything work?");
  app.add_flag("--json", arguments.json, "One JSON document, base units");
  return exit_code_of("lockstep-calibrate-cuda", [&] {
    if (const auto code = parse_command_line(app, argc, argv)) return *code;
    return run(arguments);
  });
}
