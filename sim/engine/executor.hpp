// The interface between programs and executors: simulated time, waiting, and flows over shared
// links. The engine's own programs, the parameter server, pairwise gossip and the programs of
// strategies/common that run steps and change links await its awaitables; all other code of
// strategies uses RankGroup only. Two executors run the same programs and give the same times:
//   SimGrid   Each program is an actor. An await blocks the actor in await_ready(), which then
//             returns true, so that the coroutine never suspends. SimGrid is the reference.
//   the loop  An await suspends the coroutine, and a heap of moments resumes it. Flows share links
//             in a fluid network of our own (engine/fluid.hpp). Needs no SimGrid.
// Only one program runs, until it waits; then the next has its turn. Programs that can continue
// take turns in the order in which they were woken. If several programs can continue at the same
// moment (to clock_precision), they take turns in the order in which they began to wait; programs
// that waited for flows come last. Times are seconds since the start of the simulation.
#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/program.hpp"
#include "engine/range.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

using ProgramId = std::uint64_t;
using RouteId = int;

// The links that a flow crosses.
struct Route {
  // A link that is listed k times carries k times the bytes.
  std::vector<LinkId> links;
  double cap = never;  // bytes/s that each flow reaches at most
  // An order for maps; it has no other meaning.
  bool operator<(const Route& other) const {
    return links != other.links ? links < other.links : cap < other.cap;
  }
};

// Simulated time and the programs that live in it. Create one with make_executor(), start programs,
// then call run(). Not safe for several threads.
class Executor {
 public:
  // A started program; each executor derives its own type.
  struct Fiber {};

  // Awaited: the running program waits until the moment `until`, or until another program wakes it.
  class Wait {
   public:
    Wait(Executor& executor, double until) : executor_(executor), until_(until) {}
    bool await_ready() { return until_ <= executor_.now() || executor_.waited(until_); }
    void await_suspend(std::coroutine_handle<> here) { executor_.suspend(here, until_); }
    void await_resume() const {}

   private:
    Executor& executor_;
    double until_;
  };

  // Awaited: `weight` equal flows of `bytes` each cross the route at the same time. The program
  // continues when all flows have arrived. 0 bytes take no time.
  class Carry {
   public:
    Carry(Executor& executor, RouteId route, double bytes, int weight)
        : executor_(executor), route_(route), bytes_(bytes), weight_(weight) {}
    bool await_ready() { return bytes_ <= 0 || executor_.carried(route_, bytes_, weight_); }
    void await_suspend(std::coroutine_handle<> here) {
      executor_.carry_suspended(here, route_, bytes_, weight_);
    }
    void await_resume() const {}

   private:
    Executor& executor_;
    RouteId route_;
    double bytes_;
    int weight_;
  };

  // A link's traffic so far: bytes that crossed it, and seconds in which it carried at least one
  // flow.
  struct Traffic {
    double bytes = 0;
    double busy_seconds = 0;
  };

  virtual ~Executor() = default;

  double now() const { return now_; }
  // Starts a program at the moment `at`, or at once if `at` has passed. SimGrid gives the program's
  // actor this `name`; the loop ignores it. The executor owns the program until the program returns
  // or is cancelled.
  virtual ProgramId start(std::string_view name, Program program, double at = 0) = 0;
  // Ends a program that waits, and removes it from the queue or the link at which it waits. Does
  // nothing if the program has returned. Throws std::logic_error if a program cancels itself.
  virtual void cancel(ProgramId program) = 0;
  // Runs until all programs have returned. If a program throws an exception, run() throws it.
  // Throws std::logic_error if the remaining programs all wait for each other.
  virtual void run() = 0;
  // Ends the run when the running program next waits or returns; all other programs are cancelled.
  virtual void stop() = 0;

  // Links and routes. Links are numbered 0, 1, ...; equal routes get the same id.
  // REQUIRES: links are added before run().
  virtual LinkId add_link(double bytes_per_second) = 0;
  // Changes a link's capacity at once, also for flows under way.
  virtual void set_capacity(LinkId link, double bytes_per_second) = 0;
  virtual RouteId add_route(const Route& route) = 0;
  // Bytes that crossed a link so far, and seconds in which it carried any.
  virtual Traffic traffic(LinkId link) = 0;

  // The awaitables of a program: co_await executor.sleep_for(1e-3).
  Wait sleep_until(double time) { return {*this, time}; }
  Wait sleep_for(double seconds) { return {*this, now() + seconds}; }
  Carry carry(RouteId route, double bytes, int weight = 1) { return {*this, route, bytes, weight}; }

  // For awaitables: the running program waits. If programs block (SimGrid), waited() returns true
  // after the wait. Otherwise (the loop) waited() returns false at once, and suspend() receives the
  // coroutine.
  Fiber& running() { return *running_; }
  bool waited(double until) {
    if (blocks_) block(until);
    return blocks_;
  }
  virtual void suspend(std::coroutine_handle<> here, double until) = 0;
  virtual void wake(Fiber& fiber) = 0;  // no effect if it has been woken already

 protected:
  explicit Executor(bool programs_block) : blocks_(programs_block) {}
  // Blocks the running program until the moment, or until another program wakes it.
  virtual void block(double) {}
  // Like waited(), for a flow. In both executors the result is true if the route has neither links
  // nor a cap, because its flows take no time.
  virtual bool carried(RouteId route, double bytes, int weight) = 0;
  virtual void carry_suspended(std::coroutine_handle<> here, RouteId route, double bytes,
                               int weight) = 0;

  // The moment at which the running program's turn began; each executor updates it.
  double now_ = 0;
  // The program that has its turn.
  Fiber* running_ = nullptr;

 private:
  // Whether an await blocks (SimGrid) or suspends the coroutine (the loop).
  const bool blocks_;
};

// The two executors.
// REQUIRES: make_simgrid() is called at most once per process, because SimGrid cannot start twice.
std::unique_ptr<Executor> make_loop();
std::unique_ptr<Executor> make_simgrid();
// Makes the chosen executor; `automatic` means the loop here. Strategies with rank groups replace
// `automatic` by choose_engine() (strategies/common/run_steps.hpp) before they make a world.
inline std::unique_ptr<Executor> make_executor(Engine engine) {
  return engine == Engine::simgrid ? make_simgrid() : make_loop();
}

// A place at which programs wait until another program rings. A ring wakes all programs that wait
// at that moment. A ring that no program waits for is lost, so a program must test its condition in
// a loop:
//   while (!done) co_await bell.rung();
class Bell {
 public:
  explicit Bell(Executor& executor) : executor_(executor) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  // Awaited: the wait of one program at a bell, with a time limit. If the program is cancelled, the
  // destructor removes the wait from the bell's list.
  class Ring {
   public:
    Ring(Bell& bell, double until) : bell_(bell), until_(until) {}
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() {
      if (waits_) bell_.leave(*this);
    }
    bool await_ready() {
      if (until_ <= bell_.executor_.now()) return true;
      fiber_ = &bell_.executor_.running();
      bell_.enter(*this);
      return bell_.executor_.waited(until_);
    }
    void await_suspend(std::coroutine_handle<> here) { bell_.executor_.suspend(here, until_); }
    bool await_resume() const { return rung_; }  // false: the time was over before a ring

   private:
    friend Bell;
    Bell& bell_;
    double until_;
    Executor::Fiber* fiber_ = nullptr;
    Ring *before_ = nullptr, *after_ = nullptr;  // neighbours in the bell's list
    bool waits_ = false, rung_ = false;
  };

  // Waits for the next ring, at the latest until the moment `until`; the result says whether a ring
  // came.
  Ring rung(double until = never) { return {*this, until}; }
  // Wakes all programs that wait, in the order in which they began to wait.
  void ring() {
    while (first_) {
      first_->rung_ = true;
      executor_.wake(*first_->fiber_);
      leave(*first_);
    }
  }

 private:
  void enter(Ring& ring) {
    ring.waits_ = true;
    ring.before_ = last_;
    (last_ ? last_->after_ : first_) = &ring;
    last_ = &ring;
  }
  void leave(Ring& ring) {
    ring.waits_ = false;
    (ring.before_ ? ring.before_->after_ : first_) = ring.after_;
    (ring.after_ ? ring.after_->before_ : last_) = ring.before_;
  }
  Executor& executor_;
  // Doubly linked list of the waiting programs' Rings. Each Ring is part of its program's frame, so
  // that a wait allocates nothing.
  Ring *first_ = nullptr, *last_ = nullptr;
};

// A queue that several programs fill. One program takes the items, in order:
//   const Parcel parcel = co_await inbox.receive();
// REQUIRES: only one program receives.
template <class Item>
class Inbox {
 public:
  explicit Inbox(Executor& executor) : executor_(executor) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Awaited: the next item.
  class Receive {
   public:
    explicit Receive(Inbox& inbox) : inbox_(inbox) {}
    Receive(const Receive&) = delete;
    Receive& operator=(const Receive&) = delete;
    ~Receive() { inbox_.receiver_ = nullptr; }
    bool await_ready() {
      if (inbox_.next_ < inbox_.items_.size()) return true;
      inbox_.receiver_ = &inbox_.executor_.running();
      return inbox_.executor_.waited(never);
    }
    void await_suspend(std::coroutine_handle<> here) { inbox_.executor_.suspend(here, never); }
    Item await_resume() { return inbox_.take(); }

   private:
    Inbox& inbox_;
  };

  Receive receive() { return Receive(*this); }
  // Adds an item at the end, or in front of all others, and wakes the receiver.
  void post(Item item) {
    items_.push_back(std::move(item));
    wake();
  }
  void post_first(Item item) {
    if (next_ > 0) {
      items_[--next_] = std::move(item);
    } else {
      items_.insert(items_.begin(), std::move(item));
    }
    wake();
  }

 private:
  // Takes the first item. Once half of the vector's items are taken, the others move to its front,
  // so that taking costs constant time on average.
  Item take() {
    Item item = std::move(items_[next_++]);
    if (2 * next_ >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(next_));
      next_ = 0;
    }
    return item;
  }
  void wake() {
    if (receiver_) executor_.wake(*receiver_);
  }
  Executor& executor_;
  // Items from next_ on are queued. Usually they are few, so the vector's memory is reused.
  std::vector<Item> items_;
  std::size_t next_ = 0;
  Executor::Fiber* receiver_ = nullptr;
};

}  // namespace lockstep
