// Does a result survive the pipe bit for bit?
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "points/simulate.hpp"

namespace lockstep::wire_test {
namespace {

TEST(Wire, EveryFieldComesBackExactly) {
  StrategyResult r;
  r.step_seconds = {0.1 + 0.2, 1.0 / 3.0, 5e-324, 1.7976931348623157e308};
  r.first_step_seconds = std::nextafter(1.0, 2.0);
  r.extrapolated = true;
  r.ranks = {{0, 7, 0.007, 0.001, 0.002}, {3, 1, 0.009, 0.001, 0}};
  r.step_without_stragglers = 0.008;
  r.engine = Engine::simgrid;
  r.simulated_steps = 22;
  r.simulated_micro_batches = 6;
  r.worker_steps = WorkerSteps{{{3, 2}, {179, 14}}, 1.0 / 3, 2.0 / 7};
  r.split = {1e-9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, {0.1, 0.2, 0.3, 0.4, 0.5}};
  r.device_busy = 2.0 / 7.0;
  r.samples_per_step = 1e15 + 0.5;
  r.traffic = {{"NVLink", 1.1, 2.2, 0.3}, {"NIC", 0, 0, 0}};
  r.staleness = Staleness{1.5, 1, 3, 4, {{-1, 2}, {3, 9007199254740993}}};
  r.memory = {
      1e10 / 3, 2, 3, "backward of a \"quoted\" layer\n", 5, {{"states", 1.0 / 9}, {"x", 0}}, 8e10};
  r.provenance = {0.1, 0.2, 0.7};
  r.notes = {"one", ""};
  std::vector<Diagnostic> refused;
  const StrategyResult b = from_wire(to_wire(r), refused);
  EXPECT_TRUE(refused.empty());
  EXPECT_EQ(b.step_seconds, r.step_seconds);
  EXPECT_EQ(b.first_step_seconds, r.first_step_seconds);
  EXPECT_EQ(b.extrapolated, r.extrapolated);
  EXPECT_EQ(b.simulated_steps, r.simulated_steps);
  EXPECT_EQ(b.simulated_micro_batches, r.simulated_micro_batches);
  ASSERT_TRUE(b.worker_steps.has_value());
  EXPECT_EQ(b.worker_steps->histogram, r.worker_steps->histogram);
  EXPECT_EQ(b.worker_steps->least, 1.0 / 3);
  EXPECT_EQ(b.worker_steps->most, 2.0 / 7);
  EXPECT_EQ(b.memory.retries, 5);
  EXPECT_EQ(b.split.data_loading, r.split.data_loading);
  EXPECT_EQ(b.split.forward, r.split.forward);
  EXPECT_EQ(b.split.backward, r.split.backward);
  EXPECT_EQ(b.split.optimizer, r.split.optimizer);
  EXPECT_EQ(b.split.copies, r.split.copies);
  EXPECT_EQ(b.split.exposed_communication, r.split.exposed_communication);
  EXPECT_EQ(b.split.host_bound, r.split.host_bound);
  EXPECT_EQ(b.split.waiting, r.split.waiting);
  EXPECT_EQ(b.device_busy, r.device_busy);
  EXPECT_EQ(b.samples_per_step, r.samples_per_step);
  ASSERT_EQ(b.traffic.size(), 2U);
  EXPECT_EQ(b.traffic[0].link_class, "NVLink");
  EXPECT_EQ(b.traffic[0].bytes, 1.1);
  EXPECT_EQ(b.traffic[0].total_bytes, 2.2);
  EXPECT_EQ(b.traffic[0].busy, 0.3);
  ASSERT_TRUE(b.staleness.has_value());
  EXPECT_EQ(b.staleness->mean, 1.5);
  EXPECT_EQ(b.staleness->max, 4);
  EXPECT_EQ(b.staleness->histogram, r.staleness->histogram);
  EXPECT_EQ(b.memory.allocated, r.memory.allocated);
  EXPECT_EQ(b.memory.moment, r.memory.moment);
  EXPECT_EQ(b.memory.at_peak, r.memory.at_peak);
  EXPECT_EQ(b.memory.capacity, r.memory.capacity);
  EXPECT_EQ(b.provenance.modelled, r.provenance.modelled);
  EXPECT_EQ(b.notes, r.notes);
  EXPECT_EQ(to_wire(b), to_wire(r));
}

TEST(Wire, NoStalenessStaysNone) {
  std::vector<Diagnostic> refused;
  EXPECT_FALSE(from_wire(to_wire({}), refused).staleness.has_value());
}

TEST(Wire, ARefusalKeepsItsPlaceAndWords) {
  const ConfigError error(Diagnostic{{"a.yaml", 3, 4}, "fsdp", "no \xff way", "try ddp"});
  std::vector<Diagnostic> refused;
  from_wire(refusal_to_wire(error), refused);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].where.file, "a.yaml");
  EXPECT_EQ(refused[0].where.line, 3);
  EXPECT_EQ(refused[0].field, "fsdp");
  EXPECT_EQ(refused[0].hint, "try ddp");
}

}  // namespace
}  // namespace lockstep::wire_test
