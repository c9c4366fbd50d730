// Transfers over the links of the world, and the links' traffic counts. Communicators and
// World::transfer() run their transfers through Network, which decides whether a transfer's time
// follows from a formula or from the executor's flows.
#pragma once

#include <string>
#include <vector>

#include "engine/executor.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// A list of links with a ledger of their traffic. The world has one list, and each rank group has a
// copy that counts its own transfers.
class Links {
 public:
  // World::add_link() explains the first four fields.
  struct Link {
    std::string name;
    std::string link_class;
    double bytes_per_second = 0;
    double count = 1;
    double bytes = 0;         // that crossed one of the equal links so far
    double total_bytes = 0;   // that crossed all equal links
    double busy_seconds = 0;  // in which the link carried at least one transfer
    int active = 0;           // transfers on it right now
    double active_since = 0;  // begin of the present busy time
    bool varies = false;      // its rate may change during the run
    bool meet = true;         // false: all transfers over it have the same asker (Network::asks())
    const void* asker = nullptr;  // the asker of the latest transfer over it
  };

  LinkId add(Link link);
  Link& at(LinkId id) { return links_[static_cast<std::size_t>(id)]; }
  const Link& at(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }
  // Count the begin and the end of a transfer that runs through the executor.
  // REQUIRES: calls of begin() and end() pair up.
  void begin(const TransferSpec& spec, double time);
  void end(const TransferSpec& spec, double time);
  // Counts a whole transfer whose duration is known in advance.
  void count(const TransferSpec& spec, double seconds) {
    add_bytes(spec);
    add_busy(spec, seconds);
  }
  // The two halves of count(): one adds bytes, the other adds busy seconds.
  void add_bytes(const TransferSpec& spec);
  void add_busy(const TransferSpec& spec, double seconds);
  // Adds the difference between two earlier states of the ledger `times` times.
  void repeat(const Links& from, const Links& to, int times);
  // The traffic by link class. Classes come in the order of their first links.
  std::vector<LinkTotals> totals() const;

 private:
  void add_bytes(Link& link, const LinkUse& use);
  std::vector<Link> links_;
};

// Seconds of a transfer without other traffic, including its latency.
double lone_seconds(const TransferSpec& spec, const Links& links);

// The world's links, and the flows over them that the executor carries.
class Network {
 public:
  Network(NetworkKind kind, Executor& executor) : kind_(kind), executor_(executor) {}

  LinkId add_link(Links::Link link);
  // Changes a link's rate at once, also for transfers under way.
  void set_capacity(LinkId link, double bytes_per_second);
  Links& links() { return links_; }
  Executor& executor() { return executor_; }
  // Registers that `asker` (the address of a communicator or of a world) will carry this transfer.
  // Transfers of one asker never overlap. If a link has two or more askers, their transfers may
  // meet on it.
  void asks(const TransferSpec& spec, const void* asker);
  // Whether the transfer takes the same seconds whenever it starts: its links do not change their
  // rates, and no other transfer can meet it on them (if the network is analytic, none ever can).
  bool alone(const TransferSpec& spec) const;
  // Counts the traffic of a transfer that is alone(). Returns its duration in seconds.
  double count_lone(const TransferSpec& spec);
  // Carries the transfer from `start` on. Returns when it is complete, with its end time in `end`.
  // If `start` lies in the past, the transfer has been running since then: it is credited with the
  // bytes that it would have moved without other traffic.
  Program carry(const TransferSpec& spec, double start, double& end);

 private:
  NetworkKind kind_;
  Executor& executor_;
  Links links_;
};

}  // namespace lockstep
