// The state of the machine: its hardware, and the share of its cores that other programs used
// during a measurement. Read it before and after every measurement.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct MachineDescription {
  std::string cpu;          // "AMD EPYC 7B13", as /proc/cpuinfo names it
  int cores = 0;            // logical, that this process may use
  double memory_bytes = 0;  // of the machine
  std::string kernel;       // release, "6.1.0-18-amd64"
  std::string governor;     // of frequency scaling on core 0; "" where the kernel has none
};
MachineDescription describe_machine();
// A remark about more `ranks` than cores; "" if each rank has its own core.
std::string shared_cores(int ranks, int cores);

// A reading of the clocks of CPU use by this program and others.
struct CpuClocks {
  double wall_seconds = 0;
  // All cores of the machine since boot, /proc/stat, in steps of 10 ms.
  double busy_seconds = 0;   // running processes; interrupts (our own traffic) left out
  double steal_seconds = 0;  // the hypervisor ran somebody else
  // This process with all its threads, getrusage(2).
  double own_seconds = 0;
  // Time its main thread was ready to run but did not, /proc/self/schedstat; 0 without it.
  double queued_seconds = 0;
};
CpuClocks read_cpu_clocks();

// Excludes the use between two readings after `before`: advances `before` by it.
void leave_out(CpuClocks& before, const CpuClocks& from, const CpuClocks& to);

// Shares are of elapsed time and of one core: 1.0 is one core for the whole time.
struct Disturbance {
  double seconds = 0;
  double foreign = 0;  // cores used by processes that are not ours
  double stolen = 0;   // cores used by other virtual machines
  double queued = 0;   // share of time our main thread waited for its core
};

// `own_cpu_seconds`: CPU time of all our processes between the two readings; a single process gives
// after.own_seconds - before.own_seconds.
Disturbance disturbance(const CpuClocks& before, const CpuClocks& after, double own_cpu_seconds);

struct DisturbanceLimits {
  double foreign = 0.10;
  double stolen = 0.02;
  double shortest_seconds = 0.2;  // /proc/stat says nothing about less
};
// Whether the repetition between the readings should be thrown away.
bool disturbed(const Disturbance& disturbance, const DisturbanceLimits& limits = {});

}  // namespace lockstep
