// Made-up records that use every field. Used by the tests of renderings.
#pragma once

#include "results/real_run.hpp"
#include "results/staleness.hpp"

namespace lockstep {

inline ResultRecord sample_record() {
  Prediction plain;
  plain.strategy = "ddp";
  plain.gpus = 1;
  plain.nodes = 1;
  plain.global_batch = 64;
  plain.micro_batch = 64;
  plain.precision = "amp-fp16";
  plain.step_seconds = 0.125;
  plain.median_step_seconds = 0.12;
  plain.step_interval = {0.1, 0.15625};
  plain.first_step_seconds = 0.5;
  plain.steps = 1000;
  plain.total_seconds = 125.375;
  plain.samples_per_second = 512;
  plain.split = {0.001, 0.04, 0.07, 0.006, 0.002, 0, 0.005, 0.001, 0, {}};
  plain.gpu_utilisation = 0.944;
  plain.mfu = 0.31;
  plain.flops_per_second = 96.7e12;
  plain.memory = {3e9,   3.5e9, 4e9, "backward of head", 2, {{"activations", 2e9}, {"states", 1e9}},
                  4.01e9};
  plain.dollars = 0.25;
  plain.stragglers =
      StragglerCost{0.008, 0.002, 20, 0.05, {{0, 7, 0.007, 0.001, 0.002}, {3, 1, 0.009, 0.001, 0}}};
  RunWithFailures& run = plain.with_failures.emplace();
  run.runs = 20;
  run.failures = 3;
  run.interruptions = 2;
  run.seconds_between_interruptions = 80;
  run.finish_seconds = 160;
  run.finish_interval = {150, 180};
  run.finish_error = 0.015625;
  run.goodput = 0.78125;
  run.availability = 0.875;
  run.training = 125;
  run.lost = 10;
  run.checkpoints = 5;
  run.down = 15;
  run.waiting = 5;
  run.evictions = 0.25;
  run.memory_restarts = 1.5;
  run.mean_nodes = 0.96875;
  run.checkpoint_bytes = 1e9;
  run.checkpoint_seconds = 0.5;
  run.checkpoint_stall_seconds = 0.125;
  run.memory_copy_seconds = 0.25;
  run.memory_period_seconds = 2.5;
  run.checkpoint_period_seconds = 12.5;
  run.dollars = 0.5;
  plain.provenance = {0.5, 0.25, 0.25};
  plain.extrapolated = true;
  plain.simulated_steps = 5;
  plain.simulated_micro_batches = 1;
  plain.engine = "loop";
  plain.bottleneck = "compute: 88 % of the step";

  Prediction large = plain;
  large.strategy = "async, \"two\" servers";
  large.gpus = 16;
  large.nodes = 2;
  large.global_batch = 1024;
  large.micro_batch = 32;
  large.accumulation = 2;
  large.precision = "fp32";
  large.with_failures.reset();
  large.stragglers.reset();
  large.total_seconds = 0;
  large.dollars = 0;
  large.tokens_per_second = 1e6;
  large.scaling_efficiency = 0.875;
  large.split.exposed_communication = 0.02;
  large.split.forward = 0.02;
  large.memory.retries = 0;
  large.out_of_memory =
      OutOfMemory{.shortfall = 1e9, .suggestions = {"micro-batch 16 with 4 accumulation steps"}};
  large.traffic = {{"NVLink", 1e9, 8e9, 0.5}, {"NIC", 2.5e8, 5e8, 0.125}};
  large.staleness = Staleness{14.5, 15, 16, 17, {{14, 3}, {15, 4}}};
  large.worker_steps = WorkerSteps{{{0, 7}, {1, 1}, {99, 8}}, 0, 99.0 / 793};
  Accuracy& accuracy = large.accuracy.emplace();
  accuracy.seeds = 3;
  accuracy.learning_rate = 0.0125;
  accuracy.momentum = 0.5;
  accuracy.diverged = 1;
  accuracy.last = 0.75;
  accuracy.last_interval = {0.5, 1};
  accuracy.curve = {{1.5, 0.5, 0.25, {0.125, 0.375}}, {3, 1, 0.75, {0.5, 1}}};
  accuracy.target = 0.5;
  accuracy.reached = 3;
  accuracy.seconds_to_target = 2.25;
  accuracy.seconds_interval = {2, 2.5};
  accuracy.dollars_to_target = 0.0225;
  accuracy.dollars_interval = {0.02, 0.025};
  large.provenance = {0, 0, 1};
  large.extrapolated = false;
  large.bottleneck = "does not fit";
  large.notes = {"keys are cut into parts"};

  ResultRecord record;
  record.scenario = "A made-up record";
  record.file = "made/up.yaml";
  record.model = "toy";
  record.parameters = 1'234'567'890;
  record.sequence = 2048;
  record.platform = "Toy machine";
  record.precision = "amp-fp16";
  record.seed = 7;
  record.predictions = {plain, large};
  record.failures = {{"fsdp", 1, "the simulation ended by signal 11 (Segmentation fault)"}};
  record.warnings = {"ddp is anchored"};
  record.findings = {"the second reaches 50 % first"};
  return record;
}

// A record of real training with every field; `two` is a run that ended on a GPU without a server.
inline RealRecord real_record() {
  RealRun one;
  one.strategy = "ps-async";
  one.ranks = 2;
  one.global_batch = 16;
  one.micro_batch = 8;
  one.precision = "fp32";
  one.step_seconds = 0.25;
  one.step_interval = {0.2, 0.3};
  one.samples_per_second = 64;
  one.each_step_seconds = {0.25, 0.2, 0.3};
  one.phases = {0.05, 0.125, 0.075};
  one.rank_compute_seconds = {0.125, 0.1875};
  one.memory.allocated = 1e6;
  one.losses = {2.25, 2.0};
  one.test_accuracy = 0.875;
  MeasuredStaleness& staleness = one.staleness.emplace();
  static_cast<Staleness&>(staleness) = staleness_of({{0, 1}, {1, 1}, {2, 1}});
  staleness.each_update = {0, 2, 1};
  RealRun two = one;
  two.strategy = "ddp";
  two.memory.reserved = 2e6;
  two.staleness.reset();
  two.rank_compute_seconds.clear();
  two.test_accuracy.reset();
  two.notes = {"a remark"};

  RealRecord record;
  record.scenario = "real training of toy";
  record.model = "toy";
  record.image = std::vector<std::int64_t>{3, 32, 32};
  record.platform = "3 processes";
  record.precision = "fp32";
  record.seed = 7;
  record.runs = {one, two};
  return record;
}

}  // namespace lockstep
