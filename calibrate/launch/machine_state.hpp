// The machine's hardware, and the share of its cores that other programs used during a measurement.
// Every measurement reads the CPU clocks before and after it.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct MachineDescription {
  std::string cpu;          // name in /proc/cpuinfo, for example "AMD EPYC 7B13"
  int cores = 0;            // logical cores that this process may use
  double memory_bytes = 0;  // memory of the machine
  std::string kernel;       // release, for example "6.1.0-18-amd64"
  std::string governor;     // frequency governor of core 0; "" if the kernel has none
};
MachineDescription describe_machine();
// A note for the user if there are more `ranks` than cores; otherwise "".
std::string shared_cores(int ranks, int cores);

// CPU time that this program, other programs and other virtual machines have used so far.
struct CpuClocks {
  double wall_seconds = 0;
  // Sums over all cores since boot, from /proc/stat, in steps of 10 ms.
  double busy_seconds = 0;   // running processes, without interrupts (of our own traffic)
  double steal_seconds = 0;  // the hypervisor ran another virtual machine
  // All threads of this process, from getrusage(2).
  double own_seconds = 0;
  // Time in which the main thread was ready but did not run, from /proc/self/schedstat; 0 if that
  // file does not exist.
  double queued_seconds = 0;
};
CpuClocks read_cpu_clocks();

// Excludes the time between two readings from the measurement that began at `before`, by advancing
// `before` by the difference.
void leave_out(CpuClocks& before, const CpuClocks& from, const CpuClocks& to);

// Use of cores during a measurement. 1.0 means one core for the whole time.
struct Disturbance {
  double seconds = 0;
  double foreign = 0;  // cores used by processes of others
  double stolen = 0;   // cores used by other virtual machines
  double queued = 0;   // share of the time in which our main thread waited for its core
};

// `own_cpu_seconds`: CPU time of all our processes between the two readings; for a single process,
// after.own_seconds - before.own_seconds.
Disturbance disturbance(const CpuClocks& before, const CpuClocks& after, double own_cpu_seconds);

struct DisturbanceLimits {
  double foreign = 0.10;
  double stolen = 0.02;
  double shortest_seconds = 0.2;  // /proc/stat is too coarse for less
};
// Whether the measurement between the readings must be discarded.
bool disturbed(const Disturbance& disturbance, const DisturbanceLimits& limits = {});

}  // namespace lockstep
