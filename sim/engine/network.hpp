// Transfers over the links of the world, and the links' traffic counts. Communicators, copies and
// channels carry their transfers through it.
#pragma once

#include <string>
#include <vector>

#include "engine/executor.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// The links of the world and their traffic counts.
class Links {
 public:
  struct Link {
    std::string name;
    std::string link_class;
    double bytes_per_second = 0;
    double count = 1;
    double bytes = 0;
    double total_bytes = 0;
    double busy_seconds = 0;
    int active = 0;  // transfers on it right now
    double active_since = 0;
    bool varies = false;          // its rate may change during the run
    bool meet = true;             // transfers over it may meet; false: one asker has all of them
    const void* asker = nullptr;  // of the latest transfer over it
  };

  LinkId add(Link link);
  Link& at(LinkId id) { return links_[static_cast<std::size_t>(id)]; }
  const Link& at(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }
  // Bookkeeping of a transfer between two moments. `begin` and `end` calls must pair up.
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
  // Counts the difference between two states of another ledger `times` more.
  void repeat(const Links& from, const Links& to, int times);
  std::vector<LinkTotals> totals() const;

 private:
  void add_bytes(Link& link, const LinkUse& use);
  std::vector<Link> links_;
};

// Seconds of a transfer that is alone, latency included.
double lone_seconds(const TransferSpec& spec, const Links& links);

class Network {
 public:
  Network(NetworkKind kind, Executor& executor) : kind_(kind), executor_(executor) {}

  LinkId add_link(Links::Link link);
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
  // start in the past means that the transfer has been running since then: the bytes it would have
  // moved alone are credited.
  Program carry(const TransferSpec& spec, double start, double& end);

 private:
  NetworkKind kind_;
  Executor& executor_;
  Links links_;
};

}  // namespace lockstep
