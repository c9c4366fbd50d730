// A parameter server at work (see system.hpp): the programs of workers, couriers and servers, and what
// they share. Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/executor.hpp"
#include "engine/least_first.hpp"
#include "strategies/parameter_server/rules/change.hpp"
#include "strategies/parameter_server/watch.hpp"

namespace lockstep {

enum class Direction { push, pull };

// One core on which a worker computes and servers work, under a fair scheduler (share_cores()).
// What runs there first takes the time it takes alone; then it goes on for what it lost meanwhile,
// and so on until nothing was lost.
struct SharedCore {
  bool computing = false;
  double demand = 0;  // cores that the active servers would keep busy
  double since = 0;
  double computed = 0;      // seconds in which the worker computed
  double compute_lost = 0;  // seconds that computing lost to servers

  void advance(double now);
};

// What one worker does between two pulls, as far as it is known: host and device clocks from the
// beginning of the step.
struct PsStep {
  StepSplit parts;            // data_loading, forward, backward, optimizer, copies, host_bound
  double host = 0;            // has issued everything so far
  double device = 0;          // has done it
  double gated = 0;           // of it, without weights to compute with: no part
  std::vector<double> ready;  // end of each segment
  std::vector<PsDone> done;   // what PsWatch is told; empty = nobody listens
  // Its vectors keep their memory for the next step.
  void clear() {
    parts = {};
    host = device = gated = 0;
    ready.clear();
    done.clear();
  }
};

// When the next micro-batch is there, and when the latest was taken.
struct Loader {
  double ready = 0;
  double taken = 0;
  int batches = 0;  // asked for
};

// Walks the segments from step.ready.size() up to `end` with host and device clocks as a RankGroup
// lane does. The worker's step-th step began at `start`.
void walk(const PsSystem& system, int worker, int index, double start, std::size_t end,
          Loader& loader, PsStep& step);

class PsRun {
 public:
  PsRun(const PsSystem& system, Executor& executor);
  PsTrace run();

 private:
  // A message of one worker on its way.
  struct Parcel {
    Direction direction = Direction::push;
    int worker = 0;
    int message = 0;
    Observer::Number number = 0;  // an observer's
  };
  struct Queued {
    int priority = 0;
    std::int64_t number = 0;  // in the order in which they came
    Parcel parcel;
    bool operator<(const Queued& other) const {
      return priority != other.priority ? priority < other.priority : number < other.number;
    }
  };
  // Messages of one worker that travel one after the other: with priorities by priority, then as they
  // came. A courier carries one while others wait.
  struct Lane {
    LeastFirst<Queued> waiting;
    bool has_courier = false;

    Queued take() {
      const Queued next = waiting.top();
      waiting.pop();
      return next;
    }
  };
  // Between a worker and the servers of a place.
  struct Way {
    int push = 0, pull = 0;  // of PsSystem::routes
    bool one_lane = false;
  };
  struct Activity {
    int running = 0;
    double since = 0, seconds = 0;

    double until(double now) const { return seconds + (running > 0 ? now - since : 0); }
    void change(int by, double now) {
      seconds = until(now);
      since = now;
      running += by;
    }
  };
  struct Worker {
    Worker(Executor& executor, int number) : id(number), arrived(executor) {}
    int id;
    PsStep step;
    int steps = 0;  // begun
    double started = 0;
    Loader loader;
    int missing = 0;                    // messages pushed and not pulled yet
    std::vector<int> missing_at;        // of them, needed by each of PsRun::gates_
    int dropped = 0;                    // messages of this step that came too late
    Bell arrived;                       // rings when all are here, or all that a gate needs
    std::array<Activity, 2> transfers;  // by direction
    std::vector<Lane> lanes;            // of places, then of servers: there and back
    double booked_until = 0;            // of the time after compute
    double delay = 0;                   // that a shared core has cost this step so far
    double lost = 0;                    // SharedCore::compute_lost that is in it
    double waited_before = 0;           // sum.waiting and
    double exposed_before = 0;          // sum.exposed_communication when the step began
    StepSplit sum;                      // whole steps, and the time after compute booked so far
  };
  struct Server {
    Server(Executor& executor, int number) : id(number), inbox(executor) {}
    int id;
    Inbox<Parcel> inbox;  // what has arrived; of a serial server, what wants to be carried
    Activity busy;
  };
  // A push that waits for its update, and the version it was computed on.
  struct Contribution {
    int worker = 0;
    std::int64_t read = 0;
    bool answered = false;
  };
  // Consistency state of one message.
  struct Shared {
    std::int64_t version = 0;                 // updates applied
    int arrived = 0;                          // ranks whose push waits for the next update
    std::vector<Contribution> contributions;  // theirs
    std::unique_ptr<MessageRule> rule;        // the present one
    std::vector<int> settled;                 // pushes of each worker, applied or dropped
    std::vector<std::int64_t> seen;           // version that each worker pulled last
    std::vector<int> blocked;                 // workers that may not pull yet, oldest first
  };

  // --- programs: worker.cpp
  Program worker(Worker& self);
  // A courier: this message, unless another of the lane goes first by then, and all that wait in the
  // lane. Without a lane: this one, for whoever awaits it and ends its count_transfer().
  Program carry(Lane* lane, Queued next);
  Program tail(Parcel parcel);
  // server.cpp
  Program server(Server& self);
  // trace.cpp
  Program slow_down(const PsSlowing& slowing);

  const PsMessage& message(int m) const { return system_.messages[static_cast<std::size_t>(m)]; }
  std::size_t gate_of(int m) const { return gate_of_[static_cast<std::size_t>(m)]; }
  int ranks_of(int w) const { return worker_ranks_[static_cast<std::size_t>(w)]; }
  Worker& worker_of(int w) { return *workers_[static_cast<std::size_t>(w)]; }
  const Way& way(const Parcel& parcel) const;
  int route(const Parcel& parcel) const;  // of PsSystem::routes
  PsFlow flow(const Parcel& parcel, int route) const;
  Lane& lane_of(const Parcel& parcel);

  void begin_step(Worker& self);
  void go_on(Worker& self, std::size_t gate);
  void finish_step(Worker& self);
  void push(Worker& self, int message);
  void send(Parcel parcel);
  void pulled(const Parcel& parcel);
  void book(Worker& worker, double until);
  void count_transfer(const Parcel& parcel, int change);

  double service_seconds(const Parcel& push) const;
  bool late(const Parcel& push) const;
  void take(const Parcel& push);
  void update(int message);
  void settle(Shared& shared, int worker);
  void apply(int message, const Contribution& push);
  void answer(int message, int worker);
  void answer_whoever_may(int message, const std::vector<Contribution>& pushed);
  void record_push(int message, const Contribution& push, bool used);
  void change_rule(const PsRule* rule);

  // core.cpp: servers on the cores of workers
  SharedCore* core_of_worker(int w);
  SharedCore* core_of_server(int server);
  void set_computing(Worker& self, bool computing);
  double compute_lost(Worker& self);

  // trace.cpp: what is reported
  struct Snapshot {
    double time = 0;
    StepSplit sum;  // over all ranks
    std::vector<StepSplit> workers;
    std::vector<int> steps;  // begun, by worker
    std::vector<double> link_bytes, link_busy, server_busy, push_busy, pull_busy;
  };
  Snapshot snapshot();
  void mark();
  bool repeats() const;
  PsTrace trace();

  const PsSystem& system_;
  Executor& executor_;
  Bell over_;                       // never rings: neighbours are stopped with all others
  std::vector<bool> sending_;       // by neighbour
  std::unique_ptr<PsWatch> watch_;  // null = nobody listens
  std::vector<RouteId> routes_;
  // Of PsSystem::workers, what every message asks for: close together.
  std::vector<int> worker_ranks_;
  std::vector<Way> ways_;  // by worker, then place
  std::vector<std::unique_ptr<Worker>> workers_;
  std::deque<Server> servers_;
  std::vector<Shared> shared_;  // by message
  std::vector<SharedCore> cores_;
  // With pull_overlap: segments at which forward waits for weights, in order; of each message, which.
  std::vector<int> gates_;
  std::vector<std::size_t> gate_of_;
  RuleChanges changes_;
  int ranks_ = 0;
  std::int64_t completed_ = 0;  // messages of ranks' steps that were used
  std::int64_t pushes_ = 0, dropped_ = 0;
  std::int64_t queued_ = 0;  // messages so far that went into lanes
  bool done_ = false;
  Snapshot base_;                // what is reported begins here
  std::deque<Snapshot> latest_;  // of the steps that may turn out to be the steady state
  PsTrace trace_;
  std::vector<Contribution> contributions_;  // of the update that is made
  std::vector<std::int64_t> staleness_;      // histogram
};

// What an activity of a server that keeps `cores` of the core busy has missed while the worker
// computed there. Not on a shared core: nothing.
class ServerDemand {
 public:
  ServerDemand(SharedCore* core, double cores, double now);
  // Since it was asked last; 0 = nothing, and the core is free again.
  double missed(double now);

 private:
  SharedCore* core_;
  double cores_;
  double computed_ = 0;  // SharedCore::computed up to which it has been asked
};

}  // namespace lockstep
