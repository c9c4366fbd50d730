// The loop of a worker: compute, push each message when its gradients are ready, wait for the
// weights, begin the next step. The file ends with run_parameter_server(), which starts the
// programs of a run: workers, servers, and programs that change links (bursts of neighbours, links
// that become slow).
#include <algorithm>
#include <set>

#include "core/index.hpp"
#include "strategies/parameter_server/server.hpp"

namespace lockstep {

namespace {

// All parts of a run. The order of members matters, because each member refers to earlier ones.
struct Parts {
  Parts(const PsSystem& system, Executor& executor) : run(system, executor), changes(system) {
    std::set<int> needed;
    for (const PsMessage& message : system.messages) needed.insert(message.needed_by);
    if (system.pull_overlap) gates.assign(needed.begin(), needed.end());
  }
  PsRun run;
  Books books{run};
  Wire wire{run, books};
  Servers servers{run, books, wire};
  RuleChanges changes;
  std::vector<int> gates;  // segments at which forward waits for weights, in order
};

// One worker: the program live(), and the worker's records in Books.
class Worker {
 public:
  Worker(Parts& parts, int id)
      : parts_(parts),
        run_(parts.run),
        book_(parts.books.worker(id)),
        core_(run_.core_of_worker(id)) {}
  Program live();

 private:
  int id() const { return book_.step.worker; }
  void begin_step();
  void go_on(std::size_t gate);
  double book_lost_compute();
  void end_step();

  Parts& parts_;
  PsRun& run_;
  WorkerBook& book_;
  SharedCore* core_;
  double delay_ = 0;  // seconds that a shared core has taken from this step so far
};

// When a step begins, the clocks of the whole step are computed; with pull_overlap, only of the
// part up to the next gate (a segment that waits for weights). The program then sleeps until each
// time at which messages are ready.
Program Worker::live() {
  Executor& executor = run_.executor;
  const int messages = static_cast<int>(run_.system.messages.size());
  // A worker that is not drawn for the first update waits before its first step.
  while (parts_.wire.missing(id(), 0) > 0) co_await parts_.wire.returned(id()).rung();
  while (!parts_.books.done()) {
    begin_step();
    for (std::size_t gate = 0; gate < parts_.gates.size(); ++gate) {
      const std::size_t segment = at(parts_.gates[gate]);
      if (parts_.wire.missing(id(), segment) > 0) {  // the host waits before it issues the layer
        co_await executor.sleep_until(book_.step.started + book_.step.host);
        while (parts_.wire.missing(id(), segment) > 0) co_await parts_.wire.returned(id()).rung();
      }
      go_on(gate);
    }
    // Push the messages of each segment when the segment has been computed. On a shared core, this
    // happens later by the time that servers took.
    for (int m = 0; m < messages;) {
      const int segment = run_.message(m).segment;
      co_await executor.sleep_until(book_.step.started + delay_ + book_.step.ready[at(segment)]);
      while (const double lost = book_lost_compute()) co_await executor.sleep_for(lost);
      for (; m < messages && run_.message(m).segment == segment; ++m) {
        parts_.wire.send({Direction::push, id(), m});
      }
    }
    // The compute after the last push ends at this time.
    if (book_.booked_until > executor.now() + clock_precision) {
      co_await executor.sleep_until(book_.booked_until);
    }
    if (core_) core_->compute(false, executor.now());
    // Without overlap, segment 0 of the next step needs all messages.
    while (!run_.system.pull_overlap && parts_.wire.missing(id(), 0) > 0) {
      co_await parts_.wire.returned(id()).rung();
    }
    end_step();
  }
  executor.stop();
}

// Plays the compute of the step up to the first gate, or of the whole step if there are no gates.
void Worker::begin_step() {
  parts_.books.begin_step(id());
  delay_ = 0;
  const std::vector<int>& gates = parts_.gates;
  book_.step.walk(run_.system, gates.empty() ? run_.system.segments.size() : at(gates.front()));
  book_.booked_until = book_.step.started + book_.step.device;
  if (core_) core_->compute(true, run_.executor.now());
}

// Called when the weights of the gate's layers have arrived. Plays the compute up to the next gate;
// the host issues it from now on. Books has already booked the wait for the weights; here it is
// only added to the device's clock and to `gated`.
void Worker::go_on(std::size_t gate) {
  PsStep& step = book_.step;
  step.host = std::max(step.host, run_.executor.now() - step.started);
  const double booked = book_.booked_until - step.started;
  if (booked > step.device) {
    step.gated += booked - step.device;
    step.device = booked;
  }
  const bool last = gate + 1 == parts_.gates.size();
  step.walk(run_.system, last ? run_.system.segments.size() : at(parts_.gates[gate + 1]));
  book_.booked_until = step.started + step.device;
}

// Returns the seconds that servers have taken from the worker's compute since the last call. The
// compute ends that much later, and these seconds are booked as backward.
double Worker::book_lost_compute() {
  const double lost = core_ ? core_->compute_lost(run_.executor.now()) : 0;
  if (lost == 0) return 0;
  PsStep& step = book_.step;
  if (run_.watch) step.losses.push_back({run_.executor.now() - step.started - delay_, lost});
  delay_ += lost;
  book_.booked_until += lost;
  step.device += lost;
  step.parts.backward += lost;
  return lost;
}

void Worker::end_step() {
  Books& books = parts_.books;
  const double now = run_.executor.now();
  books.end_step(id());
  const double waited = book_.sum.waiting - book_.at_start.waiting;
  const double exposed = book_.sum.exposed_communication - book_.at_start.exposed_communication;
  // A controller may change the rule after each worker's step, a switch only after a step of all
  // ranks.
  parts_.servers.change_rule(
      parts_.changes.after_step(id(), now - book_.step.started - waited, exposed, now));
  if (books.count_step(id())) parts_.servers.change_rule(parts_.changes.after(books.steps()));
}

// Sets each link's capacity to the rate that slow links and the currently sending neighbours leave.
void change_links(PsRun& run, const std::vector<int>& links, const std::vector<bool>& sending) {
  for (const int link : links) {
    run.executor.set_capacity(link, run.system.capacity(link, run.executor.now(), sending));
  }
}

// Waits until the links become slow, and sets their capacity.
Program slow_down(PsRun& run, const PsSlowing& slowing, const std::vector<bool>& sending) {
  co_await run.executor.sleep_until(slowing.from);
  change_links(run, slowing.links, sending);
}

}  // namespace

PsTrace run_parameter_server(const PsSystem& system, std::unique_ptr<Executor> executor) {
  Parts parts(system, *executor);
  std::deque<Worker> workers;
  for (std::size_t w = 0; w < system.workers.size(); ++w) {
    executor->start("worker", workers.emplace_back(parts, static_cast<int>(w)).live());
  }
  for (int server = 0; server < system.servers; ++server) {
    executor->start("server", parts.servers.serve(server));
  }
  // Neighbours send until this bell rings. It never rings: stop() ends them with all other
  // programs.
  Bell over(*executor);
  std::vector<bool> sending(system.neighbours.size(), false);
  for (std::size_t n = 0; n < system.neighbours.size(); ++n) {
    const auto change = [&, n](bool begins) {
      sending[n] = begins;
      change_links(parts.run, system.neighbours[n].links, sending);
    };
    executor->start("neighbour", play_bursts(over, system.neighbours[n].bursts, change));
  }
  for (const PsSlowing& slowing : system.slowings) {
    executor->start("slow link", slow_down(parts.run, slowing, sending));
  }
  executor->run();
  return parts.books.trace(parts.changes);
}

}  // namespace lockstep
