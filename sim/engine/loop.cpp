// The executor without SimGrid: programs wait on a heap of moments, and flows share links in a
// fluid network (engine/fluid.hpp). run() resumes all programs that are ready, then advances time
// to the next moment or completion. A wait costs a switch of coroutines, which is much cheaper than
// a context switch between actors.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <stdexcept>

#include "engine/executor.hpp"
#include "engine/fluid.hpp"

namespace lockstep {

namespace {

// A program and the place at which it waits. Sized as one cache line, because thousands of programs
// take turns.
struct alignas(64) LoopFiber : Executor::Fiber {
  Program program;
  std::coroutine_handle<> here;  // where the coroutine continues
  ProgramId id = 0;              // 0 = the program has returned and the slot is free
  std::uint64_t timer = 0;       // number of its moment on the heap; 0 = none
  std::int64_t flow = 0;
  int slot = 0;
  int route = -1;  // route of the flow for which it waits; -1 = none
  int weight = 0;
  bool ready = false;  // in ready_
};
static_assert(sizeof(LoopFiber) == 64);

class Loop final : public Executor {
 public:
  Loop() : Executor(false) {}
  ProgramId start(std::string_view name, Program program, double at) override;
  void cancel(ProgramId program) override;
  void run() override;
  void stop() override { stopping_ = true; }

  LinkId add_link(double bytes_per_second) override { return network_.add_link(bytes_per_second); }
  void set_capacity(LinkId link, double bytes_per_second) override {
    network_.set_capacity(link, bytes_per_second, now_);
  }
  RouteId add_route(const Route& route) override;
  Traffic traffic(LinkId link) override;

  void suspend(std::coroutine_handle<> here, double until) override;
  void wake(Fiber& woken) override;

 protected:
  bool carried(RouteId id, double, int) override {
    const Route& route = routes_[static_cast<std::size_t>(id)];
    return route.links.empty() && route.cap == never;
  }
  void carry_suspended(std::coroutine_handle<> here, RouteId route, double bytes,
                       int weight) override;

 private:
  // A time at which a fiber is woken. Out of date if the fiber's timer has a different number.
  struct Moment {
    double time;
    std::uint64_t number;
    LoopFiber* fiber;
    bool operator>(const Moment& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  // Gives the fiber its turn, until it waits or returns.
  void step(LoopFiber& fiber);
  // Destroys the fiber's program and frees its slot.
  void end(LoopFiber& fiber);
  void set_timer(LoopFiber& fiber, double time);
  // Advances time to the moment at which the next programs continue. Returns false if no such
  // moment exists.
  bool pass_time();
  // The time of the next valid moment. Drops moments that are out of date.
  double next_moment();
  // Ends all programs.
  void clear();

  LoopFiber& self() { return static_cast<LoopFiber&>(*running_); }

  std::deque<LoopFiber> fibers_;  // by slot; addresses stay valid
  std::vector<int> free_;         // slots of ended programs
  ProgramId started_ = 0;
  std::size_t live_ = 0;
  std::vector<LoopFiber*> ready_;  // in the order of waking, from next_ready_ on
  std::size_t next_ready_ = 0;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
  std::uint64_t timers_ = 0;
  std::vector<Moment> due_;
  FluidNetwork network_;
  std::vector<Route> routes_;
  std::map<Route, RouteId> known_;
  bool stopping_ = false;
};

ProgramId Loop::start(std::string_view, Program program, double at) {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(fibers_.size()));
    fibers_.emplace_back().slot = free_.back();
  }
  LoopFiber& fiber = fibers_[static_cast<std::size_t>(free_.back())];
  free_.pop_back();
  fiber.program = std::move(program);
  fiber.here = fiber.program.handle();
  fiber.id = ++started_;
  ++live_;
  if (at > now_) {
    set_timer(fiber, at);
  } else {
    wake(fiber);
  }
  return fiber.id;
}

void Loop::cancel(ProgramId id) {
  const auto found = std::find_if(fibers_.begin(), fibers_.end(),
                                  [id](const LoopFiber& fiber) { return fiber.id == id; });
  if (found == fibers_.end()) return;
  if (&*found == running_) throw std::logic_error("a program cannot cancel itself");
  if (found->ready) {
    ready_.erase(std::find(ready_.begin() + static_cast<std::ptrdiff_t>(next_ready_), ready_.end(),
                           &*found));
  }
  if (found->route >= 0) network_.drop(found->route, found->flow, found->weight, now_);
  end(*found);
}

void Loop::end(LoopFiber& fiber) {
  fiber.id = 0;
  fiber.ready = false;
  fiber.timer = 0;
  fiber.route = -1;
  free_.push_back(fiber.slot);
  --live_;
  fiber.program = Program();
}

void Loop::run() {
  while (live_ > 0 && !stopping_) {
    if (next_ready_ < ready_.size()) {
      LoopFiber& fiber = *ready_[next_ready_++];
      step(fiber);
      continue;
    }
    ready_.clear();
    next_ready_ = 0;
    if (!pass_time()) {
      clear();
      throw std::logic_error("the simulated programs wait for each other for ever");
    }
  }
  clear();
}

void Loop::step(LoopFiber& fiber) {
  fiber.ready = false;
  running_ = &fiber;
  fiber.here.resume();
  running_ = nullptr;
  if (!fiber.program.over()) return;
  try {
    fiber.program.rethrow();
  } catch (...) {
    clear();
    throw;
  }
  end(fiber);
}

void Loop::clear() {
  for (LoopFiber& fiber : fibers_) {
    if (fiber.id != 0) end(fiber);
  }
}

void Loop::set_timer(LoopFiber& fiber, double time) {
  fiber.timer = ++timers_;
  moments_.push({time, fiber.timer, &fiber});
}

void Loop::suspend(std::coroutine_handle<> here, double until) {
  self().here = here;
  if (until < never) set_timer(self(), until);
}

// A woken fiber's moment stays on the heap, out of date.
void Loop::wake(Fiber& woken) {
  auto& fiber = static_cast<LoopFiber&>(woken);
  if (fiber.ready) return;
  fiber.ready = true;
  fiber.timer = 0;
  ready_.push_back(&fiber);
}

// A flow over a route without links takes bytes / cap.
void Loop::carry_suspended(std::coroutine_handle<> here, RouteId id, double bytes, int weight) {
  const Route& route = routes_[static_cast<std::size_t>(id)];
  LoopFiber& carrier = self();
  carrier.here = here;
  if (route.links.empty()) {
    set_timer(carrier, now_ + bytes / route.cap);
    return;
  }
  carrier.route = id;
  carrier.weight = weight;
  carrier.flow = network_.start(id, bytes, weight, carrier.slot, now_);
}

double Loop::next_moment() {
  while (!moments_.empty()) {
    const Moment& next = moments_.top();
    if (next.fiber->timer == next.number) return next.time;
    moments_.pop();
  }
  return never;
}

// Moments that differ by less than clock_precision count as one, as in SimGrid. Programs wake in
// the order in which they began to wait, and flows complete after them.
bool Loop::pass_time() {
  const double flows = network_.next_completion();
  double moment = next_moment();
  now_ = std::max(now_, std::min(moment, flows));
  if (now_ == never) return false;
  due_.clear();
  for (; moment <= now_ + clock_precision; moment = next_moment()) {
    due_.push_back(moments_.top());
    moments_.pop();
  }
  if (due_.size() > 1) {
    std::sort(due_.begin(), due_.end(),
              [](const Moment& a, const Moment& b) { return a.number < b.number; });
  }
  for (const Moment& due : due_) wake(*due.fiber);
  if (flows > now_ + clock_precision) return true;
  for (const int slot : network_.complete(now_)) {
    LoopFiber& fiber = fibers_[static_cast<std::size_t>(slot)];
    fiber.route = -1;
    wake(fiber);
  }
  return true;
}

RouteId Loop::add_route(const Route& route) {
  const auto [entry, fresh] = known_.try_emplace(route, static_cast<RouteId>(routes_.size()));
  if (fresh) {
    routes_.push_back(route);
    network_.add_route(route.links, route.cap);
  }
  return entry->second;
}

Executor::Traffic Loop::traffic(LinkId link) {
  network_.advance_to(now_);
  return {network_.bytes_carried(link), network_.busy_seconds(link, now_)};
}

}  // namespace

std::unique_ptr<Executor> make_loop() {
  return std::make_unique<Loop>();
}

}  // namespace lockstep
