// A server and a worker on one core (see SharedCore in ps_run.hpp). Measured: an asynchronous
// server on the core of one of two workers, over loopback, made an update every 135.7 ms where
// service and compute on cores of their own would have made one every 113 to 117 ms.
#include "costs/interference.hpp"
#include "strategies/ps_run.hpp"

namespace lockstep {

namespace {

constexpr double kUpdateCores = 1;     // one thread applies updates
constexpr double kNegligible = 1e-15;  // seconds

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

// What a server's activity that keeps `cores` busy missed while the worker computed for so long.
double missed(double cores, double computed) {
  return (1 - share_cores(1, cores).communication) * computed;
}

}  // namespace

void SharedCore::advance(double now) {
  const double elapsed = now - since;
  since = now;
  if (!computing) return;
  computed += elapsed;
  compute_lost += elapsed * (1 - share_cores(1, demand).compute);
}

SharedCore* PsRun::core_of_worker(int w) {
  const int core = system_.workers[at(w)].core;
  return core < 0 ? nullptr : &cores_[at(core)];
}

SharedCore* PsRun::core_of_server(int server) {
  if (at(server) >= system_.server_core.size() || system_.server_core[at(server)] < 0) {
    return nullptr;
  }
  return &cores_[at(system_.server_core[at(server)])];
}

void PsRun::set_computing(int w, bool computing) {
  SharedCore* core = core_of_worker(w);
  if (core == nullptr) return;
  core->advance(now_);
  core->computing = computing;
  worker(w).lost = core->compute_lost;
}

// A rounding's rest is no demand.
void PsRun::add_demand(int server, double cores) {
  SharedCore* core = core_of_server(server);
  if (core == nullptr || cores == 0) return;
  core->advance(now_);
  core->demand += cores;
  if (core->demand < 1e-12) core->demand = 0;
}

// The event ends a stretch of the worker's compute: when servers took time from it meanwhile, it
// ends that much later.
bool PsRun::compute_postponed(const Event& event) {
  SharedCore* core = core_of_worker(event.worker);
  if (core == nullptr) return false;
  Worker& self = worker(event.worker);
  core->advance(now_);
  const double lost = core->compute_lost - self.lost;
  self.lost = core->compute_lost;
  if (lost <= kNegligible) return false;
  self.delay += lost;
  self.booked_until += lost;
  self.step.seconds += lost;
  self.step.parts.backward += lost;
  schedule(now_ + lost, event.kind, event.direction, event.worker, event.message);
  return true;
}

void PsRun::transfer_begins(Direction direction, int w, int m) {
  SharedCore* core = core_of_server(message(m).server);
  if (core == nullptr) return;
  core->advance(now_);
  add_demand(message(m).server, transfer_cores(direction, w, m));
  computed_before(direction, w, m) = core->computed;
}

bool PsRun::transfer_postponed(Direction direction, int w, int m) {
  SharedCore* core = core_of_server(message(m).server);
  if (core == nullptr) return false;
  core->advance(now_);
  double& before = computed_before(direction, w, m);
  const double late = missed(transfer_cores(direction, w, m), core->computed - before);
  before = core->computed;
  if (late > kNegligible) {
    schedule(now_ + late, Kind::transfer_end, direction, w, m);
    return true;
  }
  add_demand(message(m).server, -transfer_cores(direction, w, m));
  return false;
}

void PsRun::service_begins(int server) {
  SharedCore* core = core_of_server(server);
  if (core == nullptr) return;
  add_demand(server, kUpdateCores);
  servers_[at(server)].computed = core->computed;
}

bool PsRun::service_postponed(const Event& event) {
  SharedCore* core = core_of_server(event.worker);
  if (core == nullptr) return false;
  Server& server = servers_[at(event.worker)];
  core->advance(now_);
  const double late = missed(kUpdateCores, core->computed - server.computed);
  server.computed = core->computed;
  if (late > kNegligible) {
    schedule(now_ + late, event.kind, event.direction, event.worker, event.message);
    return true;
  }
  add_demand(event.worker, -kUpdateCores);
  return false;
}

double PsRun::transfer_cores(Direction direction, int w, int m) const {
  int id = 0;
  return route(direction, w, m, id).cores;
}

double& PsRun::computed_before(Direction direction, int w, int m) {
  const std::size_t messages = system_.messages.size();
  return computed_before_[2 * (at(w) * messages + at(m)) + (direction == Direction::pull)];
}

}  // namespace lockstep
