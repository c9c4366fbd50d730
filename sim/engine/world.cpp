// Owns links, rank groups and communicators, and runs their programs on an executor. The groups'
// background programs (communicators, paced streams) wait for work. When the last spawned program
// ends, close() makes them finish their queues and return.
#include "engine/world.hpp"

#include <deque>
#include <utility>

#include "engine/channel.hpp"
#include "engine/rank_group.hpp"

namespace lockstep {

struct World::Impl {
  explicit Impl(const WorldOptions& options)
      : executor(make_executor(options.engine)),
        over(*executor),
        network(options.network, *executor),
        observer(options.observer) {}

  ~Impl() { executor.reset(); }  // programs end before the objects that they use

  // Called when a spawned program ends, even by an exception. After the last spawned program, the
  // background programs and the groups are closed.
  struct Leave {
    void operator()(Impl* world) const {
      if (--world->programs > 0) return;
      world->over.ring();
      for (RankGroup& group : world->groups) group.impl().close();
    }
  };
  // Wraps a program so that Leave is called at its end.
  Program spawned(Program program, std::unique_ptr<Impl, Leave>) { co_await program; }

  std::unique_ptr<Executor> executor;
  Bell over;
  Network network;
  Observer* observer;
  std::deque<Communicator> communicators;
  std::deque<RankGroup> groups;
  std::deque<Channel> channels;
  int programs = 0;  // number of spawned programs that have not returned
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
  const LinkId id = impl_->network.add_link(std::move(link));
  if (impl_->observer) {
    impl_->observer->on_link({id, name, link_class, bytes_per_second, count});
  }
  return id;
}

void World::meet(LinkId link, bool may) {
  impl_->network.links().at(link).meet = may;
}

void World::varies(LinkId link) {
  impl_->network.links().at(link).varies = true;
}

void World::set_capacity(LinkId link, double bytes_per_second) {
  impl_->network.set_capacity(link, bytes_per_second);
}

RankGroup& World::add_ranks(RankGroupSpec spec) {
  return impl_->groups.emplace_back(std::make_unique<RankGroup::Impl>(
      std::move(spec), impl_->network, impl_->communicators, impl_->observer));
}

// The messages of a channel are transfers of a communicator in which each lane is a group.
Channel& World::add_channel(const std::string& name, RankGroup& from, RankGroup& to) {
  std::vector<std::vector<int>> lanes;
  for (int lane = 0; lane < from.lanes(); ++lane) lanes.push_back({lane});
  Communicator& carrier = from.add_communicator(name, lanes, &AxisSeconds::pipeline);
  carrier.sends_to(to.impl().stream);
  return impl_->channels.emplace_back(from, to, carrier);
}

ProgramId World::spawn(const std::string& name, Program program, double at) {
  ++impl_->programs;
  return impl_->executor->start(
      name, impl_->spawned(std::move(program), std::unique_ptr<Impl, Impl::Leave>(impl_.get())),
      at);
}

void World::spawn_beside(const std::string& name, Program program) {
  impl_->executor->start(name, std::move(program));
}

Bell& World::over() {
  return impl_->over;
}

void World::run() {
  for (RankGroup& group : impl_->groups) group.impl().start();
  impl_->executor->run();
}

Executor& World::executor() {
  return *impl_->executor;
}

double World::now() const {
  return impl_->executor->now();
}

Program World::transfer(TransferSpec spec) {
  double end = 0;
  const double start = now();
  impl_->network.asks(spec, impl_.get());
  co_await impl_->network.carry(spec, start, end);
  if (Observer* observer = impl_->observer) {
    observer->on_transfer({{"world", 0, spec.name},
                           spec.name,
                           spec.what,
                           spec.which,
                           spec.bytes,
                           start,
                           start,
                           end,
                           spec.uses,
                           observer->number(),
                           0});
  }
}

std::vector<LinkTotals> World::traffic() const {
  return impl_->network.links().totals();
}

}  // namespace lockstep
