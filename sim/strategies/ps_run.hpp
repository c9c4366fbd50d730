// The event loop of run_parameter_server (see ps_system.hpp): workers, connections, servers.
// Private to the ps_*.cpp files.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "engine/fluid.hpp"
#include "strategies/ps_system.hpp"

namespace lockstep {

enum class Direction { push, pull };

// One core on which a worker computes and servers work, under a fair scheduler (share_cores()).
// Everything that runs there is first given the time it takes alone; when that is over, it goes on
// for what it lost meanwhile, and so on until nothing was lost.
struct SharedCore {
  bool computing = false;
  double demand = 0;  // cores that the active servers would keep busy
  double since = 0;
  double computed = 0;      // seconds in which the worker computed
  double compute_lost = 0;  // seconds that computing lost to servers

  void advance(double now);
};

// What one worker does between two pulls: computed when the step begins.
struct PsStep {
  StepSplit parts;            // data_loading, forward, backward, optimizer, copies, host_bound
  double seconds = 0;         // sum of the parts
  std::vector<double> ready;  // end of each segment, from the beginning of the step
};

// When the next micro-batch is there, and when the latest was taken.
struct Loader {
  double ready = 0;
  double taken = 0;
};

// Walks the segments with host and device clocks as a RankGroup lane does, from time `start`.
void walk_step(const PsSystem& system, double factor, double start, Loader& loader, PsStep& step);

class PsRun {
 public:
  explicit PsRun(const PsSystem& system);
  PsTrace run();

 private:
  enum class Kind { gradients_ready, transfer_start, transfer_end, service_end, step_end };
  struct Event {
    double time;
    std::int64_t order;
    Kind kind;
    Direction direction;
    int worker;  // or server
    int message;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  // A message, or with `tail` the part of a serial server's answer that it need not wait for.
  struct Flow {
    Direction direction;
    int worker, message;
    bool tail = false;
  };
  // Messages of one lane go one after the other.
  struct Lane {
    std::vector<int> waiting;  // from `next` on
    std::size_t next = 0;
    bool busy = false;
  };
  struct Activity {
    int running = 0;
    double since = 0, seconds = 0;

    double until(double now) const { return seconds + (running > 0 ? now - since : 0); }
  };
  struct Worker {
    PsStep step;
    int steps = 0;  // begun
    double started = 0;
    Loader loader;
    int missing = 0;                    // messages not pulled yet in this step
    std::array<Activity, 2> transfers;  // by direction
    std::vector<Lane> lanes;            // [lane][direction]
    double booked_until = 0;            // of the time after compute
    double delay = 0;                   // that a shared core has cost this step so far
    double lost = 0;                    // SharedCore::compute_lost that is in it
    StepSplit sum;                      // whole steps, and the time after compute booked so far
  };
  struct Task {
    Direction direction;
    int worker, message;
  };
  struct Server {
    std::deque<Task> tasks;
    Task current{};
    bool busy = false;
    double busy_since = 0, busy_seconds = 0;
    double computed = 0;  // SharedCore::computed up to which its update has been made up for
  };
  // Consistency state of one message.
  struct Shared {
    std::int64_t version = 0;        // updates applied
    int arrived = 0;                 // ranks whose push waits for the next update
    std::vector<int> contributors;   // their workers
    std::vector<int> clock;          // by worker
    std::vector<std::int64_t> seen;  // version that each worker pulled last
    std::vector<int> blocked;        // workers that may not pull yet, oldest first
    std::deque<int> workers_at;      // number of workers at clock slowest, slowest + 1, ...
    int slowest = 0;
  };

  const PsMessage& message(int m) const { return system_.messages[static_cast<std::size_t>(m)]; }
  Worker& worker(int w) { return workers_[static_cast<std::size_t>(w)]; }
  Lane& lane(Direction direction, int w, int m);
  const PsRoute& route(Direction direction, int w, int m, int& id) const;
  void schedule(double time, Kind kind, Direction direction, int w, int m);

  // ps_run.cpp: workers and transfers
  void begin_step(int w);
  void gradients_ready(int w, int m);
  void finish_step(int w);
  void request(Direction direction, int w, int m);
  void begin_transfer(Direction direction, int w, int m);
  int tag_of(const Flow& flow) const;
  Flow flow_of(int tag) const;
  void flow(const Flow& flow);
  void transferred(Direction direction, int w, int m);
  void pulled(int w, int m);
  void receive(int w, int m);
  void book(Worker& worker, double until);
  void count_transfer(Worker& worker, Direction direction, int change);

  // ps_core.cpp: servers on the cores of workers
  SharedCore* core_of_worker(int w);
  SharedCore* core_of_server(int server);
  void set_computing(int w, bool computing);
  void add_demand(int server, double cores);
  bool compute_postponed(const Event& event);
  void transfer_begins(Direction direction, int w, int m);
  bool transfer_postponed(Direction direction, int w, int m);
  void service_begins(int server);
  bool service_postponed(const Event& event);
  double transfer_cores(Direction direction, int w, int m) const;
  double& computed_before(Direction direction, int w, int m);

  // ps_server.cpp: queueing, consistency, staleness
  void pump(int server);
  void serve(int server, const Task& task);
  void served(int server);
  void apply_push(int w, int m);
  void advance_clock(Shared& shared, int w);
  void answer(int w, int m);

  // ps_trace.cpp: what is reported
  struct Snapshot {
    double time = 0;
    StepSplit sum;           // over all ranks
    std::vector<int> steps;  // begun, by worker
    std::vector<double> link_bytes, link_busy, server_busy, push_busy, pull_busy;
  };
  Snapshot snapshot();
  void mark();
  bool repeats() const;
  PsTrace trace();

  const PsSystem& system_;
  FluidNetwork network_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t scheduled_ = 0;
  double now_ = 0;
  std::vector<Worker> workers_;
  std::vector<Server> servers_;
  std::vector<Shared> shared_;  // by message
  std::vector<SharedCore> cores_;
  std::vector<double> computed_before_;  // of transfers under way to servers on shared cores
  int ranks_ = 0;
  std::int64_t completed_ = 0;  // rank steps
  bool done_ = false;
  Snapshot base_;                // what is reported begins here
  std::deque<Snapshot> latest_;  // of the steps that may turn out to be the steady state
  PsTrace trace_;
  std::vector<std::int64_t> staleness_;  // histogram
};

}  // namespace lockstep
