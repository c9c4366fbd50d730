// Reads the machine's description and CPU clocks from /proc and getrusage(2). The CPU time of other
// programs is the machine's busy time (/proc/stat, in steps of 10 ms) minus our own.
#include "launch/machine_state.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

namespace lockstep {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    // x86 kernels write "model name"; ARM kernels write only numbers
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos) return line.substr(line.find_first_not_of(" \t", colon + 1));
  }
  return "unknown";
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

std::string shared_cores(int ranks, int cores) {
  if (ranks <= cores) return "";
  return fmt::format(
      "{} ranks share {} core{}: they wait for their turns there, which no prediction has; it may "
      "be "
      "off by half",
      ranks, cores, cores == 1 ? "" : "s");
}

MachineDescription describe_machine() {
  MachineDescription machine;
  machine.cpu = cpu_name();
  cpu_set_t set;
  CPU_ZERO(&set);
  machine.cores = ::sched_getaffinity(0, sizeof set, &set) == 0
                      ? CPU_COUNT(&set)
                      : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  machine.memory_bytes =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  utsname name{};
  if (::uname(&name) == 0) machine.kernel = name.release;
  machine.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return machine;
}

CpuClocks read_cpu_clocks() {
  CpuClocks clocks;
  clocks.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();

  // "cpu user nice system idle iowait irq softirq steal ...", in ticks (proc(5))
  std::istringstream stat(first_line("/proc/stat"));
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  stat >> label >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  clocks.busy_seconds = tick * (user + nice + system);
  clocks.steal_seconds = tick * steal;

  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  clocks.own_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);

  // "ns running, ns waiting to run, slices"
  std::istringstream schedstat(first_line("/proc/self/schedstat"));
  double running = 0, waiting = 0;
  schedstat >> running >> waiting;
  clocks.queued_seconds = 1e-9 * waiting;
  return clocks;
}

void leave_out(CpuClocks& before, const CpuClocks& from, const CpuClocks& to) {
  for (double CpuClocks::*clock :
       {&CpuClocks::wall_seconds, &CpuClocks::busy_seconds, &CpuClocks::steal_seconds,
        &CpuClocks::own_seconds, &CpuClocks::queued_seconds}) {
    before.*clock += to.*clock - from.*clock;
  }
}

Disturbance disturbance(const CpuClocks& before, const CpuClocks& after, double own_cpu_seconds) {
  Disturbance result;
  result.seconds = after.wall_seconds - before.wall_seconds;
  if (result.seconds <= 0) return result;
  const auto per_second = [&](double amount) { return std::max(0.0, amount) / result.seconds; };
  result.foreign = per_second(after.busy_seconds - before.busy_seconds - own_cpu_seconds);
  result.stolen = per_second(after.steal_seconds - before.steal_seconds);
  result.queued = per_second(after.queued_seconds - before.queued_seconds);
  return result;
}

bool disturbed(const Disturbance& disturbance, const DisturbanceLimits& limits) {
  if (disturbance.seconds < limits.shortest_seconds) return false;
  return disturbance.foreign > limits.foreign || disturbance.stolen > limits.stolen;
}

}  // namespace lockstep
