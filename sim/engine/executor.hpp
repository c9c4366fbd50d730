// The interface between programs and executors: simulated time, waiting, and flows over shared
// links. Two executors run the same text and give the same times:
//   SimGrid   each program is an actor; an await blocks it (await_ready() does, and says "ready", so
//             that the coroutine never suspends). The reference.
//   the loop  an await suspends the coroutine, a heap of moments resumes it; flows share links in a
//             fluid network of our own (engine/fluid.hpp). Needs no SimGrid.
// One program runs at a time, until it waits. Programs that can go on take turns in the order in
// which they were woken. Programs whose time comes at the same moment (to clock_precision) take
// turns in the order in which they began to wait, flows last.
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
  std::vector<LinkId> links;  // one that is listed k times carries k times the bytes
  double cap = never;         // bytes/s that each flow reaches at most
  bool operator<(const Route& other) const {
    return links != other.links ? links < other.links : cap < other.cap;
  }
};

class Executor {
 public:
  // A started program; each executor derives its own type.
  struct Fiber {};

  // Awaited: the running program waits for a moment, or until it is woken.
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

  // Awaited: `weight` equal flows of `bytes` each go over the route, side by side; the program goes
  // on when they have arrived.
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

  struct Traffic {
    double bytes = 0;
    double busy_seconds = 0;
  };

  virtual ~Executor() = default;

  double now() const { return now_; }
  // The program begins at `at`, or at once if `at` has passed.
  virtual ProgramId start(std::string_view name, Program program, double at = 0) = 0;
  // Ends a program that waits, and removes it from whatever it waits for. Does nothing if the
  // program is over.
  virtual void cancel(ProgramId program) = 0;
  // Runs until all programs are over. An exception of a program leaves run(). Programs that can
  // never go on throw std::logic_error.
  virtual void run() = 0;
  // Ends the run when the running program waits next or returns; all others are cancelled.
  virtual void stop() = 0;

  virtual LinkId add_link(double bytes_per_second) = 0;
  virtual void set_capacity(LinkId link, double bytes_per_second) = 0;
  virtual RouteId add_route(const Route& route) = 0;
  // Bytes that crossed a link so far, and seconds in which it carried any.
  virtual Traffic traffic(LinkId link) = 0;

  Wait sleep_until(double time) { return {*this, time}; }
  Wait sleep_for(double seconds) { return {*this, now() + seconds}; }
  Carry carry(RouteId route, double bytes, int weight = 1) { return {*this, route, bytes, weight}; }

  // --- for awaitables: the running program waits. Programs that can block have waited when waited()
  // returns, and it says so; of others suspend() gets the coroutine.
  Fiber& running() { return *running_; }
  bool waited(double until) {
    if (blocks_) block(until);
    return blocks_;
  }
  virtual void suspend(std::coroutine_handle<> here, double until) = 0;
  virtual void wake(Fiber& fiber) = 0;  // nothing if it has been woken already

 protected:
  explicit Executor(bool programs_block) : blocks_(programs_block) {}
  virtual void block(double) {}
  // Like waited(), for a flow. Also true for a route without links and cap, which takes no time.
  virtual bool carried(RouteId route, double bytes, int weight) = 0;
  virtual void carry_suspended(std::coroutine_handle<> here, RouteId route, double bytes,
                               int weight) = 0;

  double now_ = 0;            // when the running program's turn began: each executor keeps it
  Fiber* running_ = nullptr;  // the program that has the turn

 private:
  const bool blocks_;
};

std::unique_ptr<Executor> make_loop();
// May be called once per process: SimGrid cannot start twice.
std::unique_ptr<Executor> make_simgrid();
// automatic = the loop.
inline std::unique_ptr<Executor> make_executor(Engine engine) {
  return engine == Engine::simgrid ? make_simgrid() : make_loop();
}

// Programs wait at a bell until another program rings it. A ring is lost if no program waits, so
// wait in a loop over the condition.
class Bell {
 public:
  explicit Bell(Executor& executor) : executor_(executor) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

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
    bool await_resume() const { return rung_; }  // false: the time was over before

   private:
    friend Bell;
    Bell& bell_;
    double until_;
    Executor::Fiber* fiber_ = nullptr;
    Ring *before_ = nullptr, *after_ = nullptr;  // in Bell's list; each waits once
    bool waits_ = false, rung_ = false;
  };

  Ring rung(double until = never) { return {*this, until}; }
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
  Ring *first_ = nullptr, *last_ = nullptr;  // of those that wait; each lies in its program's frame
};

// A queue of items from some programs to one program.
template <class Item>
class Inbox {
 public:
  explicit Inbox(Executor& executor) : executor_(executor) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

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
  // Items from next_ on are queued. Usually there are few, so the vector's memory is reused.
  std::vector<Item> items_;
  std::size_t next_ = 0;
  Executor::Fiber* receiver_ = nullptr;
};

}  // namespace lockstep
