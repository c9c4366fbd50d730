// Transfers over the links of the world, and the links' traffic counts. Communicators, copies and
// channels carry their transfers through Network, which decides whether a transfer's time follows
// from a formula or from the executor's network.
#pragma once

#include <string>
#include <vector>

#include "engine/executor.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// A ledger of links and their traffic. The world has one, and each rank group has a copy that
// counts its own transfers.
class Links {
 public:
  // See World::add_link() for the first four.
  struct Link {
    std::string name;
    std::string link_class;
    double bytes_per_second = 0;
    double count = 1;
    double bytes = 0;             // crossed one of the equal links so far
    double total_bytes = 0;       // crossed all equal links
    double busy_seconds = 0;      // with at least one transfer
    int active = 0;               // transfers on it right now
    double active_since = 0;      // begin of the present busy time
    bool varies = false;          // its rate may change during the run
    bool meet = true;             // false: one asker has all transfers over it
    const void* asker = nullptr;  // of the latest transfer over it
  };

  LinkId add(Link link);
  Link& at(LinkId id) { return links_[static_cast<std::size_t>(id)]; }
  const Link& at(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }
  // Counts a transfer between two moments.
  // REQUIRES: calls of begin() and end() pair up.
  void begin(const TransferSpec& spec, double time);
  void end(const TransferSpec& spec, double time);
  // Counts a transfer whose times are known in closed form.
  void count(const TransferSpec& spec, double seconds) {
    add_bytes(spec);
    add_busy(spec, seconds);
  }
  // The two parts of count(): bytes, and seconds in which the links are busy.
  void add_bytes(const TransferSpec& spec);
  void add_busy(const TransferSpec& spec, double seconds);
  // Counts the difference between two states of a ledger `times` more.
  void repeat(const Links& from, const Links& to, int times);
  // The traffic by link class, in the order of the first link of each class.
  std::vector<LinkTotals> totals() const;

 private:
  void add_bytes(Link& link, const LinkUse& use);
  std::vector<Link> links_;
};

// Seconds of a transfer without other traffic, latency included.
double lone_seconds(const TransferSpec& spec, const Links& links);

// The links and the executor's flows over them.
class Network {
 public:
  Network(NetworkKind kind, Executor& executor) : kind_(kind), executor_(executor) {}

  LinkId add_link(Links::Link link);
  // Changes a link's rate at once, also for transfers under way.
  void set_capacity(LinkId link, double bytes_per_second);
  Links& links() { return links_; }
  Executor& executor() { return executor_; }
  // Registers that `asker` (a communicator; any unique address) will carry this transfer. Transfers
  // of one asker never overlap; on links with two or more askers they may.
  void asks(const TransferSpec& spec, const void* asker);
  // Whether the transfer takes its lone seconds whenever it starts. True if no transfer can meet it
  // and its links keep their rates.
  bool alone(const TransferSpec& spec) const;
  // Counts a transfer that is alone(). Returns its seconds.
  double count_lone(const TransferSpec& spec);
  // Carries the transfer from `start` on; returns when it is complete, with its time in `end`. A
  // start in the past means that the transfer has been running since then: the bytes that it would
  // have moved alone are credited.
  Program carry(const TransferSpec& spec, double start, double& end);

 private:
  NetworkKind kind_;
  Executor& executor_;
  Links links_;
};

}  // namespace lockstep
