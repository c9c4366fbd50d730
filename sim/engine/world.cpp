#include "engine/world.hpp"

#include <xbt/log.h>

#include <array>
#include <deque>
#include <exception>
#include <stdexcept>

#include "engine/executor.hpp"
#include "engine/rank_group.hpp"

namespace lockstep {

namespace s4u = sg::s4u;

struct Mailbox::Impl {
  std::deque<Message> messages;
  Doorbell bell;
};

Mailbox::Mailbox(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Mailbox::~Mailbox() = default;

Message Mailbox::receive() {
  impl_->bell.wait([&] { return !impl_->messages.empty(); });
  return *try_receive();
}

std::optional<Message> Mailbox::try_receive() {
  if (impl_->messages.empty()) return std::nullopt;
  const Message message = impl_->messages.front();
  impl_->messages.pop_front();
  return message;
}

std::size_t Mailbox::size() const {
  return impl_->messages.size();
}

void Mailbox::post(Message message) {
  message.arrived_at = s4u::Engine::get_clock();
  impl_->messages.push_back(message);
  impl_->bell.ring();
}

namespace {

// The one Engine of this process. It is never destroyed: SimGrid cannot start twice anyway, and its
// own teardown at exit is what the library expects.
s4u::Engine& start_engine() {
  static bool started = false;
  if (started) throw std::logic_error("one World per process: fork before making another");
  started = true;
  // Quiet before anything else: every set_config() logs a line.
  xbt_log_control_set("root.thres:critical");
#ifdef __SANITIZE_ADDRESS__
  // AddressSanitizer knows the stacks of threads, not those that raw contexts switch to.
  const char* factory = "--cfg=contexts/factory:thread";
#else
  const char* factory = "--cfg=contexts/factory:raw";
#endif
  static std::array<std::string, 2> words{"lockstep", factory};
  static std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  static char** argv = arguments.data();
  static int argc = 2;
  auto* engine = new s4u::Engine(&argc, argv);
  // The plain fluid model: factors 1, no charge on the way back, no TCP window, and time resolved
  // far below a nanosecond.
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

// Carries background sends; waits for the next one when idle.
struct Courier {
  std::function<void()> job;
  Doorbell bell;
};

}  // namespace

struct World::Impl {
  struct Endpoint {
    std::vector<LinkId> up, down;
  };

  explicit Impl(const WorldOptions& given) : options(given), engine(start_engine()) {
    zone = sg::make_zone("world");
    home = sg::make_host(zone, "home");
    // Actors that are stuck for ever end the run with an exception instead of SimGrid's report.
    s4u::Engine::on_deadlock_cb([this] { deadlock = true; });
  }

  // Whether collectives never meet another transfer: one program, one group of ranks with one
  // communicator, whose collectives run one after the other. What a RankGroup copies is not on the
  // network either.
  bool collectives_are_alone() {
    if (!options.closed_form || options.network == NetworkKind::message) return false;
    if (groups.size() != 1 || !endpoints.empty() || !mailboxes.empty() || programs > 1) {
      return false;
    }
    return groups.front().impl().communicators.size() <= 1 ||
           options.network == NetworkKind::analytic;
  }
  void no_company() const {
    if (alone) throw std::logic_error("a World that was found to carry collectives only");
  }

  void launch(const std::string& name, std::function<void()> run, bool background) {
    no_company();
    ++programs;
    auto actor = sg::make_actor(name, home, [this, run = std::move(run), background] {
      try {
        run();
      } catch (const simgrid::ForcefulKillException&) {
        throw;
      } catch (...) {
        failure = std::current_exception();
        s4u::Actor::kill_all();
        return;
      }
      if (!background && --programs_left == 0) {
        for (RankGroup& group : groups) group.impl().close();
      }
    });
    if (background) {
      actor->daemonize();
    } else {
      ++programs_left;
    }
  }

  TransferSpec path(EndpointId from, EndpointId to, const SendSpec& spec) const {
    TransferSpec transfer;
    transfer.latency_seconds = spec.latency_seconds;
    transfer.bytes = spec.bytes;
    if (spec.bytes > 0) {
      for (const LinkId link : endpoints.at(static_cast<std::size_t>(from)).up) {
        transfer.uses.push_back({link, spec.bytes});
      }
      for (const LinkId link : endpoints.at(static_cast<std::size_t>(to)).down) {
        transfer.uses.push_back({link, spec.bytes});
      }
    }
    return transfer;
  }

  void send_later(std::function<void()> job) {
    if (idle_couriers.empty()) {
      Courier& courier = couriers.emplace_back();
      courier.job = std::move(job);
      launch(
          "courier",
          [this, &courier] {
            while (true) {
              courier.bell.wait([&] { return static_cast<bool>(courier.job); });
              std::exchange(courier.job, nullptr)();
              idle_couriers.push_back(&courier);
            }
          },
          true);
      return;
    }
    Courier& courier = *idle_couriers.back();
    idle_couriers.pop_back();
    courier.job = std::move(job);
    courier.bell.ring();
  }

  WorldOptions options;
  s4u::Engine& engine;
  s4u::NetZone* zone = nullptr;
  s4u::Host* home = nullptr;
  Links links;
  std::unique_ptr<Network> network;
  std::deque<RankGroup> groups;
  std::deque<Mailbox> mailboxes;
  std::vector<Endpoint> endpoints;
  std::deque<Courier> couriers;
  std::vector<Courier*> idle_couriers;
  int programs = 0;
  int programs_left = 0;
  bool alone = false;
  bool deadlock = false;
  std::exception_ptr failure;
};

World::World(const WorldOptions& options) : impl_(std::make_unique<Impl>(options)) {}
World::~World() = default;

LinkId World::add_link(const std::string& name, const std::string& link_class,
                       double bytes_per_second, double count) {
  Links::Link link;
  link.name = name;
  link.link_class = link_class;
  link.bytes_per_second = bytes_per_second;
  link.count = count;
  link.simulated = sg::make_link(impl_->zone, name, bytes_per_second * payload_scale);
  return impl_->links.add(std::move(link));
}

LinkId World::add_connection_limit(const std::string& name, double bytes_per_second) {
  const LinkId id = add_link(name, "", bytes_per_second);
  impl_->links.at(id).simulated->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
  return id;
}

RankGroup& World::add_ranks(RankGroupSpec spec) {
  return impl_->groups.emplace_back(
      std::make_unique<RankGroup::Impl>(std::move(spec), impl_->links));
}

EndpointId World::add_endpoint(const std::string&, std::vector<LinkId> up,
                               std::vector<LinkId> down) {
  impl_->endpoints.push_back({std::move(up), std::move(down)});
  return static_cast<EndpointId>(impl_->endpoints.size()) - 1;
}

Mailbox& World::add_mailbox() {
  return impl_->mailboxes.emplace_back(std::make_unique<Mailbox::Impl>());
}

void World::spawn(const std::string& name, std::function<void()> program) {
  impl_->launch(name, std::move(program), false);
}

void World::spawn_background(const std::string& name, std::function<void()> program) {
  impl_->launch(name, std::move(program), true);
}

void World::run() {
  impl_->alone = impl_->collectives_are_alone();
  if (impl_->alone) {
    impl_->groups.front().impl().start_alone(impl_->options.network);
  } else {
    impl_->network = make_network(impl_->options.network,
                                  NetworkContext{.zone = impl_->zone, .links = &impl_->links});
    for (RankGroup& group : impl_->groups) group.impl().start(*impl_->network, impl_->home);
  }
  impl_->engine.run();
  if (impl_->failure) std::rethrow_exception(impl_->failure);
  if (impl_->deadlock)
    throw std::logic_error("the simulated programs wait for each other for ever");
}

double World::now() const {
  return s4u::Engine::get_clock();
}

void World::sleep_for(double seconds) {
  if (seconds > 0) s4u::this_actor::sleep_for(seconds);
}

void World::sleep_until(double time) {
  sleep_for(time - now());
}

void World::transfer(const TransferSpec& spec) {
  impl_->no_company();
  impl_->network->carry(spec, now());
}

void World::send(EndpointId from, EndpointId to, const SendSpec& spec, Message message,
                 Mailbox& to_mailbox) {
  message.bytes = spec.bytes;
  message.sent_at = now();
  impl_->network->carry(impl_->path(from, to, spec), message.sent_at);
  to_mailbox.post(message);
}

void World::send_async(EndpointId from, EndpointId to, const SendSpec& spec, Message message,
                       Mailbox& to_mailbox) {
  impl_->send_later(
      [this, from, to, spec, message, &to_mailbox] { send(from, to, spec, message, to_mailbox); });
}

std::vector<LinkTotals> World::traffic() const {
  return impl_->links.totals();
}

}  // namespace lockstep
