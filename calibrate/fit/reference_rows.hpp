// The public measurements in calibrate/reference/, and the device models' predictions for them.
// Used by lockstep-fit and by the test that keeps the shipped models within their bar.
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
  bool sharded = false;  // FSDP: each GPU updates its share
  int gpus = 1;
  TimedPart part = TimedPart::step;
  double step_seconds = 0;  // measured, of `part`
  std::string software;

  std::string network() const;  // model and the parameters that make it this one
  std::string label() const;
};

struct ReferenceSet {
  std::map<std::string, std::string> sources;
  std::vector<ReferenceRow> rows;
};

ReferenceSet load_reference(const std::string& path);

// A row with its lowered step, ready to be priced again and again.
struct ReferenceCase {
  ReferenceRow row;
  TrainingStep step;
  std::vector<std::size_t> like;  // per layer: the first layer with the same kernels
  Machine machine;                // the device, and a host of that time
};
ReferenceCase prepare(const ReferenceRow& row);

// Seconds of one optimizer step on a machine and framework like the row's.
double predict(const ReferenceCase& reference, const Machine& machine, const Framework& framework,
               const KernelLaw& law = {});

}  // namespace lockstep
