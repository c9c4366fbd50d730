// Reads the public measurements of training steps, builds the training step of each, and predicts
// the measured part with the device models. The cost of layers with equal kernels is computed once,
// because a fit predicts every row thousands of times.
#include "fit/reference_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/describe.hpp"
#include "costs/roofline_costs.hpp"
#include "hardware/device.hpp"
#include "workload/model.hpp"

namespace lockstep {

template <class Visitor>
void describe(Visitor& v, ReferenceRow& r) {
  v.field("source", r.source, "Key into sources.", {.required = true});
  v.field("device", r.device, "Device file.", {.required = true});
  v.field("model", r.model, "Model file.", {.required = true});
  v.field("parameters", r.parameters, "Overrides of a parametric model.");
  v.field("layout", r.layout, "Memory layout of images.");
  v.field("precision", r.precision, "Numeric mode.", {.required = true});
  v.field("samples", r.samples, "Micro-batch of one GPU.", {.min = 1, .required = true});
  v.field("accumulation", r.accumulation, "Micro-batches per step.", {.min = 1});
  v.field("image", r.image, "Channels, height, width.");
  v.field("sequence", r.sequence, "Tokens per sample.", {.min = 0});
  v.field("checkpointing", r.checkpointing, "Activation checkpointing of every block.");
  v.field("fused_attention", r.fused_attention, "Flash attention.");
  v.field("framework", r.framework, "Software that drives the device.");
  v.field("optimizer", r.optimizer, "Update rule.");
  v.field("gradient_clipping", r.gradient_clipping, "Clipping by global norm.");
  v.field("sharded", r.sharded, "Parameters are sharded over the GPUs (FSDP).");
  v.field("gpus", r.gpus, "GPUs of the run.", {.min = 1});
  v.field("part", r.part, "Part of a step that was timed.");
  v.field("step", r.step_seconds, "Measured time of one optimizer step, or of that part.",
          {.unit = Dimension::seconds, .min = 0, .required = true});
  v.field("software", r.software, "Versions, as far as stated.");
}

template <class Visitor>
void describe(Visitor& v, ReferenceSet& s) {
  v.field("sources", s.sources, "Where rows come from.");
  v.field("rows", s.rows, "Measurements.", {.required = true});
}

namespace {

// In rows with two GPUs, gradients are summed over NVLink after backward. This is the bus bandwidth
// of two A100 with bridges or a switch (fact 103).
constexpr double two_gpu_bus_bandwidth = 208e9;

double exchange_seconds(const ReferenceCase& c) {
  if (c.row.gpus == 1 || c.row.sharded)
    return 0;  // FSDP's traffic is hidden behind the compute in these rows
  const double bytes =
      static_cast<double>(c.step.parameter_count) * gradient_bytes(c.row.precision);
  return bytes * 2 * (c.row.gpus - 1) / c.row.gpus / two_gpu_bus_bandwidth;
}

bool same_kernels(const std::vector<Kernel>& a, const std::vector<Kernel>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Kernel& x, const Kernel& y) {
    const ConvGeometry &g = x.conv, &h = y.conv;
    return x.kind == y.kind && x.pass == y.pass && x.math == y.math && x.flops == y.flops &&
           x.bytes_read == y.bytes_read && x.bytes_written == y.bytes_written && x.m == y.m &&
           x.n == y.n && x.k == y.k && x.batch == y.batch && x.launches == y.launches &&
           x.operators == y.operators && g.channels_in == h.channels_in &&
           g.channels_out == h.channels_out && g.groups == h.groups;
  });
}

bool same_work(const Layer& a, const Layer& b) {
  return a.checkpointed == b.checkpointed && same_kernels(a.forward, b.forward) &&
         same_kernels(a.backward, b.backward);
}

}  // namespace

std::string ReferenceRow::network() const {
  const auto layers = parameters.find("layers"), hidden = parameters.find("hidden");
  if (layers == parameters.end() || hidden == parameters.end()) return model;
  return fmt::format("{} {}x{}", model, layers->second, hidden->second);
}

std::string ReferenceRow::label() const {
  std::string text =
      fmt::format("{:15} {:26} {:9} {:>5}", device, network(),
                  EnumNames<Precision>::names[static_cast<std::size_t>(precision)], samples);
  if (!image.empty()) text += layout == Layout::nhwc ? " nhwc" : " nchw";
  if (part != TimedPart::step)
    text += fmt::format(" {}", EnumNames<TimedPart>::names[static_cast<std::size_t>(part)]);
  return text;
}

ReferenceSet load_reference(const std::string& path) {
  return read_file<ReferenceSet>(path);
}

ReferenceCase prepare(const ReferenceRow& row) {
  ReferenceCase c;
  c.row = row;
  StepOptions options;
  options.samples = row.samples;
  options.precision = row.precision;
  options.image = row.image;
  options.sequence = row.sequence;
  options.parameters = row.parameters;
  options.fused_attention = row.fused_attention;
  options.channels_last = row.layout == Layout::nhwc;
  options.activation_checkpointing = row.checkpointing;
  c.step = build_step(*load_model(row.model), options);
  c.machine.device = load_device(row.device);
  for (std::size_t i = 0; i < c.step.layers.size(); ++i) {
    std::size_t first = 0;
    while (!same_work(c.step.layers[first], c.step.layers[i])) ++first;
    c.like.push_back(first);
  }
  return c;
}

double predict(const ReferenceCase& c, const Machine& machine, const Framework& framework,
               const KernelLaw& law) {
  const RooflineCosts costs(machine, framework, law);
  QueuedWork micro;
  int tensors = 0;
  const bool forward = c.row.part != TimedPart::backward;
  const bool backward = c.row.part != TimedPart::forward;
  std::vector<LayerCost> layers(c.step.layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i] = c.like[i] < i ? layers[c.like[i]] : costs.layer(c.step, i);
    if (forward) micro = append(micro, layers[i].forward);
    tensors += static_cast<int>(c.step.layers[i].parameters.size());
  }
  for (auto layer = layers.rbegin(); backward && layer != layers.rend(); ++layer)
    micro = append(micro, layer->backward);
  if (c.row.part != TimedPart::step) return micro.span;
  // Megatron's host waits for the device at each micro-batch (strategies/step_parts.cpp).
  if (framework.name == FrameworkKind::megatron) micro = {micro.span, micro.span, micro.span};
  const auto all_elements = static_cast<double>(c.step.parameter_count);
  QueuedWork step;
  for (std::int64_t i = 0; i < c.row.accumulation; ++i) {
    step = append(step, micro);
    if (i > 0 && !c.row.sharded)  // gradients of later micro-batches are added to the first
      step =
          append(step, costs.stream(3 * gradient_bytes(c.row.precision) * all_elements, tensors));
  }
  const double share = c.row.sharded ? 1.0 / c.row.gpus : 1.0;
  // In FSDP the shards are fp32 for every compute precision (fact 43).
  const Precision update = c.row.sharded ? Precision::fp32 : c.row.precision;
  const double elements = all_elements * share;
  if (c.row.gradient_clipping)
    step = append(
        step, costs.stream(clipping_bytes(update, elements), clipping_launches(elements, tensors)));
  step = append(step, costs.optimizer(c.row.optimizer, update, elements, tensors));
  // At the end of a step with loss scaling, the host waits for the device; otherwise it runs ahead.
  const double seconds =
      optimizer_synchronises(c.row.precision) ? step.span : std::max(step.host, step.busy);
  return seconds + exchange_seconds(c);
}

}  // namespace lockstep
