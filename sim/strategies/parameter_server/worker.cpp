// The loop of a worker: compute, push ready messages, wait for the weights, continue. And a whole
// run: its workers, servers and all that changes links.
#include <algorithm>
#include <set>

#include "core/index.hpp"
#include "strategies/parameter_server/server.hpp"

namespace lockstep {

namespace {

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
  double delay_ = 0;  // that a shared core has cost this step so far
};

Program Worker::live() {
  Executor& executor = run_.executor;
  const int messages = static_cast<int>(run_.system.messages.size());
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
    for (int m = 0; m < messages;) {
      const int segment = run_.message(m).segment;
      co_await executor.sleep_until(book_.step.started + delay_ + book_.step.ready[at(segment)]);
      while (const double lost = book_lost_compute()) co_await executor.sleep_for(lost);
      for (; m < messages && run_.message(m).segment == segment; ++m) {
        parts_.wire.send({Direction::push, id(), m});
      }
    }
    if (book_.booked_until > executor.now() + clock_precision) {
      co_await executor.sleep_until(book_.booked_until);
    }
    if (core_) core_->compute(false, executor.now());
    // Without overlap segment 0 of the next step needs all messages.
    while (!run_.system.pull_overlap && parts_.wire.missing(id(), 0) > 0) {
      co_await parts_.wire.returned(id()).rung();
    }
    end_step();
  }
  executor.stop();
}

void Worker::begin_step() {
  parts_.books.begin_step(id());
  delay_ = 0;
  const std::vector<int>& gates = parts_.gates;
  book_.step.walk(run_.system, gates.empty() ? run_.system.segments.size() : at(gates.front()));
  book_.booked_until = book_.step.started + book_.step.device;
  if (core_) core_->compute(true, run_.executor.now());
}

// Continues with the weights of a gate's layers, up to the next gate. The wait for these weights
// was booked when the last of them arrived, which is at this moment.
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

// Seconds that servers took from the worker's compute: it ends that much later.
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
  // A controller decides by the worker's step, phases and switches by the steps of all.
  parts_.servers.change_rule(
      parts_.changes.after_step(id(), now - book_.step.started - waited, exposed, now));
  if (books.count_step(id())) parts_.servers.change_rule(parts_.changes.after(books.steps()));
}

// Sets each link's capacity to the remainder beside sending neighbours.
void change_links(PsRun& run, const std::vector<int>& links, const std::vector<bool>& sending) {
  for (const int link : links) {
    run.executor.set_capacity(link, run.system.capacity(link, run.executor.now(), sending));
  }
}

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
  Bell over(*executor);  // never rings: neighbours are stopped with all others
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
