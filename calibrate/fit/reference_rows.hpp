// The public measurements in calibrate/reference/, and the device models' predictions for them.
// lockstep-fit uses them, and so does the test that checks the errors of the shipped models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "costs/host.hpp"
#include "costs/kernel_model.hpp"
#include "costs/optimizer.hpp"
#include "hardware/machine.hpp"
#include "workload/step.hpp"

namespace lockstep {

enum class Layout { nchw, nhwc };
template <>
struct EnumNames<Layout> {
  static constexpr std::array names{"nchw", "nhwc"};
};

// The timed part of a training step.
enum class TimedPart { step, forward, backward, without_update };
template <>
struct EnumNames<TimedPart> {
  static constexpr std::array names{"step", "forward", "backward", "without-update"};
};

struct ReferenceRow {
  std::string source;
  std::string device;
  std::string model;
  std::map<std::string, std::int64_t> parameters;
  Layout layout = Layout::nchw;
  Precision precision = Precision::fp32;
  std::int64_t samples = 1;       // micro-batch of one GPU
  std::int64_t accumulation = 1;  // micro-batches per step
  std::vector<std::int64_t> image;
  std::int64_t sequence = 0;
  bool checkpointing = false;
  bool fused_attention = true;
  Framework framework;
  OptimizerSpec optimizer;
  bool gradient_clipping = false;
  bool sharded = false;  // FSDP: each GPU updates its shard
  int gpus = 1;
  TimedPart part = TimedPart::step;
  double step_seconds = 0;  // measured seconds of `part`
  std::string software;

  std::string network() const;  // the model, and the parameters that distinguish it
  std::string label() const;
};

struct ReferenceSet {
  std::map<std::string, std::string> sources;
  std::vector<ReferenceRow> rows;
};

ReferenceSet load_reference(const std::string& path);

// A row with its training step, ready to be predicted many times.
struct ReferenceCase {
  ReferenceRow row;
  TrainingStep step;
  std::vector<std::size_t> like;  // by layer: the first layer with the same kernels
  Machine machine;                // the row's device, and a default host
};
ReferenceCase prepare(const ReferenceRow& row);

// Seconds of the row's measured part on this machine with this framework.
double predict(const ReferenceCase& reference, const Machine& machine, const Framework& framework,
               const KernelLaw& law = {});

}  // namespace lockstep
