// Does a step that is written as a Chakra trace and read back have the same compute and
// communication?
#include "results/chakra.hpp"

#include <gmock/gmock.h>

#include "core/errors.hpp"
#include "points/points.hpp"
#include "questions/replay.hpp"
#include "timeline/timeline.hpp"
#include "timeline/traced_names.hpp"

namespace lockstep::chakra_test {
namespace {

using testing::HasSubstr;

Point point_of(const std::string& strategy, int gpus) {
  const Scenario scenario = read_scenario_text(
      "name: test\nmodel: resnet50\nplatform: dgx-a100-80gb\ngpus: [" + std::to_string(gpus) +
          "]\nbatch: {micro: 64}\nstrategies: [" + strategy + "]\n",
      "test.yaml");
  return expand(scenario).front();
}

// The work and transfers of rank 0 in step 2, as an observer receives them.
class Sums final : public Observer {
 public:
  double compute = 0, communication = 0, bytes = 0, host = 0;
  int collectives = 0;
  void on_ranks(std::string_view, std::span<const int> lane_of_rank) override {
    lane_ = lane_of_rank[0];
  }
  bool watches(std::string_view, int lane) const override { return lane == lane_; }
  void on_work(const Work& work) override {
    if (work.stream.name == "compute") works_.push_back({work.start, work.end, 0});
    if (work.stream.name == "host") hosts_.push_back({work.start, work.end, 0});
  }
  void on_transfer(const Transfer& transfer) override {
    if (is_collective(transfer.name))
      transfers_.push_back({transfer.start, transfer.end, transfer.bytes});
  }
  void on_step(const Step& step) override {
    if (step.index != 2) return;
    if (step.stream.name == "compute") window_ = {step.start, step.end, 0};
    if (step.stream.name == "host") host_window_ = {step.start, step.end, 0};
  }
  double step() const { return window_.end - window_.start; }
  void add_up() {
    for (const Span& work : works_)
      if (window_.holds(work)) compute += work.end - work.start;
    for (const Span& work : hosts_)
      if (host_window_.holds(work)) host += work.end - work.start;
    for (const Span& transfer : transfers_) {
      if (!window_.holds(transfer)) continue;
      communication += transfer.end - transfer.start;
      bytes += transfer.bytes;
      ++collectives;
    }
  }

 private:
  struct Span {
    double start = 0, end = 0, bytes = 0;
    bool holds(const Span& span) const { return span.start >= start && span.start < end; }
  };
  int lane_ = -1;
  std::vector<Span> works_, hosts_, transfers_;
  Span window_, host_window_;
};

void expect_round_trip(const std::string& strategy) {
  SCOPED_TRACE(strategy);
  const Point point = point_of(strategy, 8);
  Job job = point.job;
  job.simulation.steps = 3;
  Timeline timeline(job, {.ranks = {0}, .first_step = 2, .last_step = 2});
  job.simulation.observer = &timeline;
  point.strategy->simulate(job);
  Sums sums;
  job.simulation.observer = &sums;
  point.strategy->simulate(job);
  sums.add_up();
  ASSERT_GT(sums.collectives, 0);

  const std::vector<ChakraNode> written = timeline.chakra(0);
  const std::vector<ChakraNode> read = read_chakra("test.et", chakra_bytes(written));
  ASSERT_EQ(read.size(), written.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].id, written[i].id);
    EXPECT_EQ(read[i].name, written[i].name);
    EXPECT_EQ(read[i].type, written[i].type);
    EXPECT_EQ(read[i].after, written[i].after);
    EXPECT_EQ(read[i].on_host, written[i].on_host);
    EXPECT_EQ(read[i].collective, written[i].collective);
    EXPECT_EQ(read[i].seconds, written[i].seconds);
    EXPECT_EQ(read[i].bytes, std::round(written[i].bytes));
  }
  const Replay replayed = replay("test.et", read);
  EXPECT_NEAR(replayed.compute, sums.compute, 1e-9 * sums.compute);
  EXPECT_NEAR(replayed.communication, sums.communication, 1e-9 * sums.communication);
  EXPECT_NEAR(replayed.bytes, sums.bytes, 1e-9 * sums.bytes);
  // The host is ahead of the device, so its work in the trace is the work that it did at that time.
  double host = 0;
  for (const ChakraNode& node : read) host += node.on_host ? node.seconds : 0;
  EXPECT_NEAR(host, sums.host, 1e-9 * sums.host);
  // A reduction of gradients depends on a device node that computes the gradients.
  for (const ChakraNode& node : read) {
    if (node.collective != "all_reduce" && node.collective != "reduce_scatter") continue;
    EXPECT_TRUE(std::any_of(node.after.begin(), node.after.end(), [&](std::uint64_t id) {
      const ChakraNode& before = read.at(id - 1);
      return before.type == ChakraNode::Type::compute && !before.on_host;
    })) << node.name;
  }
  // A replay begins with idle streams; in the run the host was ahead.
  EXPECT_NEAR(replayed.step, sums.step(), 0.05 * sums.step());
  EXPECT_LE(replayed.alone, replayed.communication);
}

TEST(Chakra, AWrittenStepComesBackWithItsComputeAndCommunication) {
  expect_round_trip("ddp");
  expect_round_trip("fsdp");
}

// A computes for 3 s. B, a collective of 2 s, and C, compute of 4 s, follow A. D computes for 1 s
// after both.
std::vector<ChakraNode> diamond() {
  const auto node = [](std::uint64_t id, ChakraNode::Type type, double seconds,
                       std::vector<std::uint64_t> after) {
    ChakraNode made;
    made.id = id;
    made.name = std::string(1, static_cast<char>('A' + id));
    made.type = type;
    made.seconds = seconds;
    made.after = std::move(after);
    if (type == ChakraNode::Type::collective) made.collective = "all_reduce";
    if (type == ChakraNode::Type::collective) made.bytes = 1e6;
    return made;
  };
  using Type = ChakraNode::Type;
  return {node(0, Type::compute, 3, {}), node(1, Type::collective, 2, {0}),
          node(2, Type::compute, 4, {0}), node(3, Type::compute, 1, {1, 2})};
}

TEST(Replay, RunsWhatIsReadyAndCountsWhatIsAlone) {
  std::vector<ChakraNode> nodes = diamond();
  Replay result = replay("test.et", nodes);
  EXPECT_DOUBLE_EQ(result.step, 8);
  EXPECT_DOUBLE_EQ(result.compute, 8);
  EXPECT_DOUBLE_EQ(result.communication, 2);
  EXPECT_DOUBLE_EQ(result.alone, 0);
  nodes[1].seconds = 6;
  result = replay("test.et", nodes);
  EXPECT_DOUBLE_EQ(result.step, 10);
  EXPECT_DOUBLE_EQ(result.alone, 2);
  nodes[2].after.clear();  // ready together with A, but the device runs one node at a time
  EXPECT_DOUBLE_EQ(replay("test.et", nodes).step, 10);
}

TEST(Replay, CollectivesCanTakePlaceElsewhere) {
  const Machine machine = load_machine("dgx-a100-80gb");
  const auto two = priced_on(diamond(), machine, 2), eight = priced_on(diamond(), machine, 8);
  EXPECT_EQ(two[0].seconds, 3);
  EXPECT_GT(eight[1].seconds, two[1].seconds);
  EXPECT_LT(eight[1].seconds, 1e-3);  // 1 MB over NVLink
}

std::string error_of(const std::string& bytes) {
  try {
    replay("bad.et", read_chakra("bad.et", bytes));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Chakra, BadTracesAreRefused) {
  std::vector<ChakraNode> nodes = diamond();
  nodes[0].after = {3};
  EXPECT_THAT(error_of(chakra_bytes(nodes)),
              HasSubstr("bad.et: node 0 'A': its dependencies go in a circle"));
  nodes[0].after = {7};
  EXPECT_THAT(error_of(chakra_bytes(nodes)), HasSubstr("depends on node 7, which is not there"));
  nodes = diamond();
  nodes[1].id = 2;
  EXPECT_THAT(error_of(chakra_bytes(nodes)), HasSubstr("node 2 'C': there is another node"));
  EXPECT_THAT(error_of(chakra_bytes({})), HasSubstr("holds no nodes"));
  EXPECT_THAT(error_of(""), HasSubstr("bad.et: byte 0: a number breaks off"));
  EXPECT_THAT(error_of("hello"), HasSubstr("a message is longer than the file"));
  const std::string whole = chakra_bytes(diamond());
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {1, 0x40, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      refused += error_of(bytes) != "no error";
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()));
}

}  // namespace
}  // namespace lockstep::chakra_test
