// Programs as SimGrid actors and flows as SimGrid communications: the reference executor. Only one
// actor has its turn; when it waits, it passes the turn to the next actor, in the same order as the
// loop.
//
// An actor blocks on its semaphore `turn`, with a timeout if it waits until a moment. A flow is a
// communication between two pseudo hosts; the route between them crosses the flow's links.
#include <xbt/log.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>

#include "engine/executor.hpp"
#include "engine/sg_compat.hpp"

namespace lockstep {

namespace s4u = sg::s4u;

namespace {

// A program and its actor, which is created at the program's first turn.
struct ActorFiber : Executor::Fiber {
  Program program;
  std::string name;
  ProgramId id = 0;
  s4u::ActorPtr actor;
  s4u::SemaphorePtr turn;
  // waiting: blocked. due: its moment has come, but SimGrid may wake others for the same moment.
  // ready: waits for its turn. running: has its turn.
  enum class State { waiting, due, ready, running } state = State::waiting;
  bool carries = false;     // whether it waits for a flow
  std::uint64_t waits = 0;  // number of its present wait
};

// SimGrid refuses links without capacity and links without limit, and loses precision on tiny
// payloads. All rates and bytes are multiplied by this factor before they reach SimGrid.
constexpr double payload_scale = 65536;

// Creates the one Engine of this process. The Engine is never destroyed: SimGrid cannot start
// twice, and the library expects its own teardown at exit. Throws std::logic_error at a second
// call.
s4u::Engine& start_engine() {
  static bool started = false;
  if (started) throw std::logic_error("SimGrid starts once per process: fork before");
  started = true;
  // Silence logging first, because every set_config() logs a line.
  xbt_log_control_set("root.thres:critical");
#ifdef __SANITIZE_ADDRESS__
  // AddressSanitizer knows the stacks of threads, but not the stacks to which raw contexts switch.
  const char* factory = "--cfg=contexts/factory:thread";
#else
  const char* factory = "--cfg=contexts/factory:raw";
#endif
  static std::array<std::string, 2> words{"lockstep", factory};
  static std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  static char** argv = arguments.data();
  static int argc = 2;
  auto* engine = new s4u::Engine(&argc, argv);
  // The plain fluid model: no correction factors, no load on the way back, no TCP window, and a
  // time resolution far below a nanosecond.
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/TCP-gamma:1e30");
#if SIMGRID_VERSION >= 33400
  s4u::Engine::set_config("precision/timing", clock_precision);
#else
  s4u::Engine::set_config("surf/precision", clock_precision);
#endif
  return *engine;
}

class SimGrid final : public Executor {
 public:
  SimGrid() : Executor(true), engine_(start_engine()), zone_(sg::make_zone("world")) {
    home_ = sg::make_host(zone_, "home");
    for (int i = 0; i < pseudo_hosts; ++i) {
      hosts_.push_back(sg::make_host(zone_, "port" + std::to_string(i)));
    }
    // If all actors wait for ever, run() throws an exception, in place of SimGrid's own report.
    s4u::Engine::on_deadlock_cb([this] { deadlock_ = true; });
  }

  ProgramId start(std::string_view name, Program program, double at) override;
  void cancel(ProgramId program) override;
  void run() override;
  void stop() override { stopping_ = true; }

  LinkId add_link(double bytes_per_second) override;
  void set_capacity(LinkId link, double bytes_per_second) override;
  RouteId add_route(const Route& route) override;
  Traffic traffic(LinkId link) override;

  void suspend(std::coroutine_handle<>, double) override {}
  void wake(Fiber& woken) override;

 protected:
  void block(double until) override;
  bool carried(RouteId route, double bytes, int weight) override;
  void carry_suspended(std::coroutine_handle<>, RouteId, double, int) override {}

 private:
  // A link of the world: SimGrid's link and the traffic counts.
  struct Link {
    s4u::Link* simulated = nullptr;
    Traffic past;      // of flows that have ended
    int active = 0;    // flows on it now
    double since = 0;  // begin of the present busy time
  };
  // Two pseudo hosts that carry one flow after the other. The route between them crosses some
  // links, and a private link if the flow's rate is limited.
  struct Lane {
    s4u::Host* from = nullptr;
    s4u::Host* to = nullptr;
    s4u::Link* limit = nullptr;
  };
  // Lanes without a flow, by the links that they cross and whether they have a limit. A flow takes
  // a lane and returns it.
  using Idle = std::map<std::pair<std::vector<LinkId>, bool>, std::vector<Lane>>;
  // A flow that is being carried; it counts as traffic as long as the object exists. set_capacity()
  // may interrupt it; it then starts again with the bytes that are left.
  struct Flow {
    SimGrid& world;
    RouteId route;
    double bytes;
    int weight;
    double payload;
    const ActorFiber& carrier;
    s4u::CommPtr comm{};  // null between two attempts
    double left = 0;      // of the payload, while `comm` is null
    Flow(SimGrid& w, RouteId r, double b, int n, double p, const ActorFiber& f)
        : world(w), route(r), bytes(b), weight(n), payload(p), carrier(f), left(p) {
      world.count(*this, +1);
      world.flows_.push_back(this);
    }
    Flow(const Flow&) = delete;
    Flow& operator=(const Flow&) = delete;
    ~Flow() {
      std::erase(world.flows_, this);
      world.count(*this, -1);
    }
    // Ends the present attempt and stores the number of bytes that are left.
    void interrupt() {
      if (!comm) return;
      left = comm->get_remaining();
      comm = nullptr;
    }
  };

  ActorFiber& running_fiber() { return static_cast<ActorFiber&>(*running_); }
  // The running program's time is SimGrid's clock when its turn began.
  void begin_turn() { now_ = s4u::Engine::get_clock(); }
  void live(ActorFiber& fiber);
  void wait(ActorFiber& self, bool carries);
  void hand_on();
  void arrive(ActorFiber& self);
  s4u::Link* make_link(double bytes_per_second);
  Lane make_lane(const std::vector<LinkId>& crossed, bool limited);
  void count(const Flow& flow, int change);
  double carried_by(const Flow& flow) const;

  // 160 hosts have 25,440 ordered pairs, each with its own route, in a table of 0.2 MB.
  static constexpr int pseudo_hosts = 160;
  s4u::Engine& engine_;
  s4u::NetZone* zone_;
  s4u::Host* home_ = nullptr;
  std::vector<s4u::Host*> hosts_;
  int next_pair_ = 0;
  std::vector<Link> links_;
  int simulated_links_ = 0;
  std::vector<Route> routes_;
  std::map<Route, RouteId> known_;
  std::vector<s4u::Link*> limits_;  // private links that belong to no lane yet
  Idle idle_;
  std::vector<Flow*> flows_;
  std::map<ProgramId, ActorFiber> fibers_;
  ProgramId started_ = 0;
  std::uint64_t waits_ = 0;
  std::deque<ActorFiber*> ready_;  // actors that wait for their turn
  std::vector<ActorFiber*> due_;   // actors in the present round of arrive()
  bool stopping_ = false;
  bool deadlock_ = false;
  std::exception_ptr failure_;
};

ProgramId SimGrid::start(std::string_view name, Program program, double at) {
  ActorFiber& fiber = fibers_[++started_];
  fiber.program = std::move(program);
  fiber.name = name;
  fiber.id = started_;
  fiber.turn = s4u::Semaphore::create(0);
  if (at > now()) {
    fiber.waits = ++waits_;
    fiber.actor = sg::make_actor(fiber.name, home_, [this, &fiber, at] {
      s4u::this_actor::sleep_until(at);
      arrive(fiber);
      live(fiber);
    });
  } else {
    wake(fiber);
  }
  return fiber.id;
}

// The body of an actor: runs the program, stores its exception for run(), and passes the turn to
// the next actor.
void SimGrid::live(ActorFiber& self) {
  begin_turn();
  self.program.handle().resume();
  try {
    self.program.rethrow();
  } catch (const simgrid::ForcefulKillException&) {
    throw;
  } catch (...) {
    failure_ = std::current_exception();
    stopping_ = true;
  }
  fibers_.erase(self.id);
  hand_on();
}

// Kills the actor, which unwinds its program. If the actor waits for a flow, the flow ends too.
void SimGrid::cancel(ProgramId id) {
  const auto found = fibers_.find(id);
  if (found == fibers_.end()) return;
  ActorFiber& fiber = found->second;
  if (&fiber == running_) throw std::logic_error("a program cannot cancel itself");
  std::erase(ready_, &fiber);
  std::erase(due_, &fiber);
  if (fiber.actor) {
    for (Flow* flow : flows_) {
      if (&flow->carrier == &fiber) flow->interrupt();
    }
    fiber.actor->kill();
    if (running_) fiber.actor->join();
  }
  fibers_.erase(found);
}

void SimGrid::run() {
  // Links cannot be made while time runs. Make enough for all transfers that may run at the same
  // time.
  for (std::size_t i = 0; i < 512 + 4 * routes_.size(); ++i) limits_.push_back(make_link(1));
  if (!ready_.empty()) hand_on();
  engine_.run();
  for (auto& [id, fiber] : fibers_) {
    // The actor will never continue, so its program cannot be unwound in the middle. It is leaked.
    if (fiber.actor && !fiber.program.over()) new Program(std::move(fiber.program));
  }
  fibers_.clear();
  if (failure_) std::rethrow_exception(failure_);
  if (deadlock_) throw std::logic_error("the simulated programs wait for each other for ever");
}

void SimGrid::wake(Fiber& woken) {
  auto& fiber = static_cast<ActorFiber&>(woken);
  if (fiber.state != ActorFiber::State::waiting) return;
  fiber.state = ActorFiber::State::ready;
  ready_.push_back(&fiber);
}

// Gives the turn to the actor that has been ready for the longest time. If all actors wait for time
// to pass, none gets it. If the run is to stop, all actors end.
void SimGrid::hand_on() {
  running_ = nullptr;
  if (stopping_) {
    for (Flow* flow : flows_) flow->interrupt();
    s4u::Actor::kill_all();
    return;
  }
  if (ready_.empty()) return;
  ActorFiber& next = *ready_.front();
  running_ = &next;
  ready_.pop_front();
  next.state = ActorFiber::State::running;
  // The next actor may be over, and its fiber gone, before either call returns.
  if (next.actor) {
    const s4u::SemaphorePtr turn = next.turn;
    turn->release();
  } else {
    sg::make_actor(next.name, home_, [this, &next] {
      next.actor = s4u::Actor::self();
      live(next);
    });
  }
}

// Passes the turn to another actor, because the running program waits.
void SimGrid::wait(ActorFiber& self, bool carries) {
  self.state = ActorFiber::State::waiting;
  self.carries = carries;
  self.waits = ++waits_;
  hand_on();
  if (stopping_) s4u::this_actor::exit();
}

// The time of a waiting actor has come. SimGrid wakes all such actors in one round, in an order of
// its own. After a yield, all actors of the round are in `due_`. They become ready in the order
// that both executors follow: by the beginning of their wait, flows last.
void SimGrid::arrive(ActorFiber& self) {
  if (self.state == ActorFiber::State::waiting) {
    self.state = ActorFiber::State::due;
    due_.push_back(&self);
    s4u::this_actor::yield();
    std::sort(due_.begin(), due_.end(), [](const ActorFiber* a, const ActorFiber* b) {
      return a->carries != b->carries ? b->carries : a->waits < b->waits;
    });
    for (ActorFiber* fiber : due_) fiber->state = ActorFiber::State::ready;
    ready_.insert(ready_.end(), due_.begin(), due_.end());
    due_.clear();
    if (running_ == nullptr) hand_on();
  }
  self.turn->acquire();
  begin_turn();
}

// Waits until another program wakes this one and it gets its turn, or until the moment has come.
void SimGrid::block(double until) {
  ActorFiber& self = running_fiber();
  wait(self, false);
  if (until == never) {
    self.turn->acquire();
  } else if (self.turn->acquire_timeout(until - now())) {
    return arrive(self);
  }
  begin_turn();
}

// Sends `weight` flows of `bytes` each over a route, and waits until they have arrived.
bool SimGrid::carried(RouteId id, double bytes, int weight) {
  const Route& route = routes_[static_cast<std::size_t>(id)];
  if (route.links.empty()) {
    if (route.cap < never) block(now() + bytes / route.cap);
    return true;
  }
  const double payload = std::max(1.0, std::round(bytes * payload_scale));
  // `weight` equal flows are one flow that crosses each link of the route `weight` times.
  std::vector<LinkId> crossed;
  for (const LinkId link : route.links) {
    crossed.insert(crossed.end(), static_cast<std::size_t>(weight), link);
  }
  const bool limited = route.cap < never;
  std::vector<Lane>& idle = idle_[{crossed, limited}];
  if (idle.empty()) idle.push_back(make_lane(crossed, limited));
  const Lane lane = idle.back();
  idle.pop_back();
  // With this capacity, the rounded payload takes exactly as long as the unrounded bytes would at
  // the rate `cap`.
  if (limited) lane.limit->set_bandwidth(route.cap * (payload / bytes));
  ActorFiber& self = running_fiber();
  Flow flow(*this, id, bytes, weight, payload, self);
  const auto send = [&] {
    flow.comm = s4u::Comm::sendto_init();
    flow.comm->set_source(lane.from)->set_destination(lane.to);
    flow.comm->set_payload_size(static_cast<std::uint64_t>(std::ceil(flow.left)))->start();
  };
  send();
  wait(self, true);
  while (true) {
    // set_capacity() has interrupted the flow, perhaps before this actor came to wait, or during
    // send().
    while (!flow.comm) send();
    const s4u::CommPtr comm = flow.comm;
    try {
      comm->wait();
      flow.left = 0;
      flow.comm = nullptr;
      idle.push_back(lane);
      break;
    } catch (const simgrid::Exception&) {
      flow.comm = nullptr;
    }
  }
  arrive(self);
  return true;
}

// SimGrid never lets a flow become faster than its links were when the flow began. Therefore flows
// over the changed link start again.
void SimGrid::set_capacity(LinkId id, double bytes_per_second) {
  links_[static_cast<std::size_t>(id)].simulated->set_bandwidth(bytes_per_second * payload_scale);
  for (Flow* flow : flows_) {
    const std::vector<LinkId>& crossed = routes_[static_cast<std::size_t>(flow->route)].links;
    if (!flow->comm || std::find(crossed.begin(), crossed.end(), id) == crossed.end()) continue;
    const s4u::CommPtr comm = flow->comm;
    flow->interrupt();
    comm->cancel();
  }
}

// Takes the next unused pair of pseudo hosts. Throws std::logic_error if none is left.
SimGrid::Lane SimGrid::make_lane(const std::vector<LinkId>& crossed, bool limited) {
  if (next_pair_ >= pseudo_hosts * (pseudo_hosts - 1) || (limited && limits_.empty())) {
    throw std::logic_error("too many different routes for SimGrid");
  }
  const int from = next_pair_ / (pseudo_hosts - 1);
  const int rest = next_pair_ % (pseudo_hosts - 1);
  const int to = rest < from ? rest : rest + 1;
  ++next_pair_;
  Lane lane{hosts_[static_cast<std::size_t>(from)], hosts_[static_cast<std::size_t>(to)], nullptr};
  std::vector<s4u::Link*> links;
  if (limited) {
    lane.limit = limits_.back();
    limits_.pop_back();
    links.push_back(lane.limit);
  }
  for (const LinkId link : crossed) {
    links.push_back(links_[static_cast<std::size_t>(link)].simulated);
  }
  sg::make_route(zone_, lane.from, lane.to, links);
  return lane;
}

// Updates the traffic counts when a flow begins (+1) or ends (-1).
void SimGrid::count(const Flow& flow, int change) {
  const double carried = change > 0 ? 0 : carried_by(flow);
  for (const LinkId id : routes_[static_cast<std::size_t>(flow.route)].links) {
    Link& link = links_[static_cast<std::size_t>(id)];
    link.past.bytes += carried;
    if (link.active == 0) link.since = now();
    link.active += change;
    if (link.active == 0) link.past.busy_seconds += now() - link.since;
  }
}

// Bytes that the flow has sent so far over a link that its route crosses once.
double SimGrid::carried_by(const Flow& flow) const {
  const double left = flow.comm ? flow.comm->get_remaining() : flow.left;
  return flow.weight * flow.bytes * (1 - left / flow.payload);
}

s4u::Link* SimGrid::make_link(double bytes_per_second) {
  return sg::make_link(zone_, "link" + std::to_string(simulated_links_++),
                       bytes_per_second * payload_scale);
}

LinkId SimGrid::add_link(double bytes_per_second) {
  Link link;
  link.simulated = make_link(bytes_per_second);
  links_.push_back(link);
  return static_cast<LinkId>(links_.size()) - 1;
}

RouteId SimGrid::add_route(const Route& route) {
  const auto [entry, fresh] = known_.try_emplace(route, static_cast<RouteId>(routes_.size()));
  if (fresh) routes_.push_back(route);
  return entry->second;
}

Executor::Traffic SimGrid::traffic(LinkId id) {
  const Link& link = links_[static_cast<std::size_t>(id)];
  Traffic result = link.past;
  if (link.active > 0) result.busy_seconds += now() - link.since;
  for (const Flow* flow : flows_) {
    const std::vector<LinkId>& crossed = routes_[static_cast<std::size_t>(flow->route)].links;
    const auto times = std::count(crossed.begin(), crossed.end(), id);
    if (times > 0) result.bytes += static_cast<double>(times) * carried_by(*flow);
  }
  return result;
}

}  // namespace

std::unique_ptr<Executor> make_simgrid() {
  return std::make_unique<SimGrid>();
}

}  // namespace lockstep
