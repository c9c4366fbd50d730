// Several "hosts" on one machine: network namespaces that are joined by links of a given rate, so
// that real distributed training can be measured on a network slower than loopback. Needs Linux,
// root, iproute2 and the kernel's token bucket filter (tbf). No latency is added, because many
// kernels lack netem.
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

// Up to 200 hosts. Two hosts are joined directly by a veth pair, more by a bridge in a separate
// namespace. Every host sends and receives at most `bytes_per_second`. While a LinkedHosts exists,
// Ctrl-C raises InterruptGuard's flag instead of ending the process, so that the destructor can
// remove the namespaces.
class LinkedHosts {
 public:
  // First removes the namespaces of ended processes. Throws std::runtime_error with a reason for
  // the user (for example, no root or no `ip`), and InterruptError after Ctrl-C.
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
  std::vector<std::string> namespaces_;  // all that exist, to be removed
};

// "" if LinkedHosts works on this machine, otherwise the reason. It tries to build two hosts, which
// takes a quarter of a second. Throws InterruptError after Ctrl-C, because the answer is then
// unknown.
std::string why_no_linked_hosts();

// Removes the namespaces of LinkedHosts whose process has ended.
void remove_stale_hosts();

// The rate in bytes per second of a text such as "1Gbit" or "1 Gbit/s"; 0 for "loopback". Throws
// ConfigError.
double network_rate(const std::string& text);

// The size of the token bucket, below which messages are not slowed down. It is 256 KiB up to 1
// Gbit/s, and 1 MiB for higher rates, which a smaller bucket would not reach.
double token_bucket_bytes(double bytes_per_second);

}  // namespace lockstep
