// The simulated world: SimGrid behind a small vocabulary. Links, actors, rank groups
// (engine/ranks.hpp), endpoints and mailboxes. One World per process, ever (SimGrid cannot start
// twice): callers that simulate several points fork one child per point BEFORE a World exists.
//
//   World world;
//   LinkId nic = world.add_link("nic", "NIC", 12.5e9, 4);
//   RankGroup& ranks = world.add_ranks({.ranks_per_lane = {8}});
//   world.spawn("driver", [&] { ...ranks.compute(...)...; });
//   world.run();                      // until every actor has returned
//   ... ranks.steps(), world.traffic()
//
// Links, rank groups, communicators, endpoints and mailboxes are added before run(). SimGrid's own
// headers stay in the .cpp files of this room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/ranks.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

struct WorldOptions {
  NetworkKind network = NetworkKind::flow;
  // False: SimGrid carries every collective, even where nothing can disturb one (for tests).
  bool closed_form = true;
};

// A place that sends and receives point to point: a worker, a server. Its traffic crosses its own
// `up` links when it sends and its own `down` links when it receives.
using EndpointId = int;

// A control or data message between actors. What the numbers mean is the strategy's business.
struct Message {
  int kind = 0;
  int source = 0;
  std::int64_t key = 0;
  std::int64_t version = 0;
  double bytes = 0;
  double sent_at = 0;     // filled by send
  double arrived_at = 0;  // filled on delivery
};

// A queue of messages in order of arrival (equal times: some fixed order).
class Mailbox {
 public:
  Message receive();                     // blocks the calling actor until there is one
  std::optional<Message> try_receive();  // does not block
  std::size_t size() const;
  void post(Message message);  // from any actor, arrives now

  struct Impl;
  explicit Mailbox(std::unique_ptr<Impl> impl);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

 private:
  std::unique_ptr<Impl> impl_;
};

struct SendSpec {
  double latency_seconds = 0;
  double bytes = 0;  // 0 = a control message: latency only
};

class World {
 public:
  explicit World(const WorldOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // `count` equal links of class `link_class` ("NVLink", "NIC", ...: the classes of the traffic
  // report), each of so many bytes/s one way, that always carry the same traffic.
  LinkId add_link(const std::string& name, const std::string& link_class, double bytes_per_second,
                  double count = 1);
  // A limit that every transfer using it obeys on its own (one TCP connection, fact 79): put it
  // among an endpoint's links. Carries no traffic statistics.
  LinkId add_connection_limit(const std::string& name, double bytes_per_second);
  RankGroup& add_ranks(RankGroupSpec spec);
  EndpointId add_endpoint(const std::string& name, std::vector<LinkId> up,
                          std::vector<LinkId> down);
  Mailbox& add_mailbox();

  // An actor. Actors start at time 0 in the order of spawn and take turns deterministically.
  void spawn(const std::string& name, std::function<void()> program);
  // One that serves the others for ever: run() does not wait for it.
  void spawn_background(const std::string& name, std::function<void()> program);
  // Runs until every spawned program has returned. An exception thrown by a program leaves run().
  // Programs that can never go on (a deadlock) throw std::logic_error.
  void run();

  // --- for programs, while run() runs
  // -----------------------------------------------------------------
  double now() const;
  void sleep_for(double seconds);
  void sleep_until(double time);
  void transfer(const TransferSpec& spec);  // blocks until done; competes for its links
  // Blocks until the message is delivered into `to_mailbox`.
  void send(EndpointId from, EndpointId to, const SendSpec& spec, Message message,
            Mailbox& to_mailbox);
  // The same in the background. Sends of one endpoint run side by side and share its links.
  void send_async(EndpointId from, EndpointId to, const SendSpec& spec, Message message,
                  Mailbox& to_mailbox);

  // --- after run()
  // --------------------------------------------------------------------------------------
  std::vector<LinkTotals> traffic() const;  // by link class, in order of registration

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
