// Several "hosts" on one machine: network namespaces joined by links of a given rate, so that real
// distributed training can be measured on a network slower than loopback. Needs Linux, root (or
// CAP_SYS_ADMIN and CAP_NET_ADMIN), iproute2 and the kernel's token bucket filter (tbf). No latency
// is added: netem is missing in many kernels.
#pragma once

#include <string>
#include <vector>

#include "launch/interrupts.hpp"
#include "launch/processes.hpp"

namespace lockstep {

struct LinkedHost {
  std::string network_namespace;
  std::string address;  // IPv4, reachable from the other hosts
};

// Up to 200 hosts; two are joined directly by a veth pair, more by a bridge in a namespace of its
// own. Every host sends and receives at most `bytes_per_second`. While one exists, Ctrl-C raises
// InterruptGuard's flag instead of ending the process, so that the destructor can remove
// everything.
class LinkedHosts {
 public:
  // Throws std::runtime_error with a plain reason: not root, no `ip`, no tbf; InterruptError after
  // Ctrl-C. First removes namespaces of ended processes.
  LinkedHosts(int hosts, double bytes_per_second);
  ~LinkedHosts();
  LinkedHosts(const LinkedHosts&) = delete;
  LinkedHosts& operator=(const LinkedHosts&) = delete;

  const LinkedHost& host(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }
  int size() const { return static_cast<int>(hosts_.size()); }
  // Puts each rank into the namespace of its host.
  void place(std::vector<RankProcess>& ranks) const;

 private:
  void add_namespace(const std::string& name);
  void join_pair(double bytes_per_second);
  void join_by_bridge(double bytes_per_second);
  void remove() noexcept;

  InterruptGuard guard_;
  std::string prefix_;
  std::vector<LinkedHost> hosts_;
  std::vector<std::string> namespaces_;  // made so far
};

// "" when LinkedHosts works here, else the reason. Tries it out (a quarter of a second). Throws
// InterruptError after Ctrl-C, because the answer is then unknown.
std::string why_no_linked_hosts();

// Removes the namespaces of LinkedHosts whose process has ended; returns their number.
void remove_stale_hosts();

// "loopback" is 0, "1Gbit" or "1 Gbit/s" a rate in bytes per second. Throws ConfigError.
double network_rate(const std::string& text);

// The token bucket's size: messages below it are not slowed down. 256 KiB up to 1 Gbit/s, 1 MiB
// above, where a smaller bucket would not reach the rate.
double token_bucket_bytes(double bytes_per_second);

}  // namespace lockstep
