// Describes DDP's updates for the accuracy replay, which trains with real gradients
// (calibrate/convergence/compression.hpp): the compression of gradients, and the parameter versions
// that the stages of a pipeline read if it never drains (PipeDream). The result is an
// UpdateSchedule (results/schedule.hpp).
#include "results/schedule.hpp"
#include "strategies/ddp/ddp.hpp"
#include "strategies/ddp/plan.hpp"

namespace lockstep {

namespace {

// The number format in which gradients are sent. A hook that casts determines it. Otherwise,
// elements of two bytes have the format of the matrix products, or bf16 if the products are in
// fp32.
GradientElement element_of(const DdpOptions& options, Precision precision) {
  if (std::holds_alternative<Fp16Hook>(options.comm_hook)) return GradientElement::fp16;
  if (std::holds_alternative<Bf16Hook>(options.comm_hook)) return GradientElement::bf16;
  if (options.gradient_bytes != 2) return GradientElement::fp32;
  return math_mode(precision) == MathMode::fp16 ? GradientElement::fp16 : GradientElement::bf16;
}

// A visitor of communication hooks that fills the schedule's compression.
struct Compressed {
  CompressedMean& reduction;
  int usual_rank;

  void operator()(const PlainHook&) {}
  void operator()(const Fp16Hook&) {}
  void operator()(const Bf16Hook&) {}
  void operator()(const PowerSgdHook& hook) {
    reduction.compression = Compression::powersgd;
    reduction.rank = hook.rank.value_or(usual_rank);
  }
  void operator()(const TopKHook& hook) {
    reduction.compression = Compression::top_k;
    reduction.fraction = hook.fraction;
  }
  void operator()(const RandomKHook& hook) {
    reduction.compression = Compression::random_k;
    reduction.fraction = hook.fraction;
  }
  void operator()(const SignHook&) { reduction.compression = Compression::sign; }
  void operator()(const QsgdHook&) { reduction.compression = Compression::qsgd; }
  void operator()(const OneBitHook&) { reduction.compression = Compression::onebit; }
};

// Whether the result of a compression depends on the division into buckets. It does not for signs
// and for low-rank factors of matrices.
bool differs_by_bucket(Compression compression) {
  return compression != Compression::none && compression != Compression::sign &&
         compression != Compression::powersgd;
}

// By stage: the parameters of the stage as one message.
std::vector<std::vector<ParameterPiece>> stage_messages(const Job& job) {
  const PipelineShape shape = pipeline_shape(job);
  std::vector<int> stage_of_layer(job.step->layers.size(), 0);
  for (std::size_t part = 0; part < job.parts->size(); ++part) {
    const PartPlace place = place_of(job.parallel.pipeline.schedule, shape, static_cast<int>(part));
    for (const int layer : (*job.parts)[part].layers) {
      if (layer >= 0) stage_of_layer[static_cast<std::size_t>(layer)] = place.rank;
    }
  }
  std::vector<std::vector<ParameterPiece>> messages(static_cast<std::size_t>(shape.stages));
  int number = 0;
  for (std::size_t layer = 0; layer < job.step->layers.size(); ++layer) {
    for (const Parameter& parameter : job.step->layers[layer].parameters) {
      if (!parameter.trainable || parameter.count == 0) continue;
      messages[static_cast<std::size_t>(stage_of_layer[layer])].push_back(
          {number++, 0, parameter.count});
    }
  }
  return messages;
}

// Divides each update into one update for each stage, because stages update separately, and a
// gradient was computed on a different parameter version in each stage (stage_staleness()).
void update_by_stage(const Job& job, UpdateSchedule& schedule) {
  const PipelineSchedule pipeline = job.parallel.pipeline.schedule;
  const PipelineShape shape = pipeline_shape(job);
  std::vector<ScheduledPush> pushes;
  for (std::size_t first = 0; first < schedule.pushes.size();) {
    const std::size_t end = first + static_cast<std::size_t>(schedule.workers);
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (std::size_t i = first; i < end; ++i) {
        ScheduledPush& push = pushes.emplace_back(schedule.pushes[i]);
        push.message = stage;
        push.read =
            std::max<std::int64_t>(0, push.applied - 1 - stage_staleness(pipeline, shape, stage));
      }
    }
    first = end;
  }
  schedule.messages = stage_messages(job);
  schedule.pushes = std::move(pushes);
}

bool never_drains(const Job& job) {
  return job.mesh.pipeline > 1 && !drains(job.parallel.pipeline.schedule);
}

}  // namespace

std::vector<std::string> Ddp::not_replayed(const Job& job) const {
  std::vector<std::string> options;
  if (!never_drains(job)) return options;
  // With accumulation, the micro-batches of one update read different versions, but the replay uses
  // one version for a whole update. PipeDream-2BW reads only one version.
  const bool alike = job.parallel.pipeline.schedule == PipelineSchedule::pipedream_2bw;
  if (!alike && job.accumulation > 1) options.push_back("parallel.pipeline.schedule");
  if (!std::holds_alternative<PlainHook>(options_.comm_hook) && job.mesh.copies() > 1) {
    options.push_back("comm_hook");
  }
  return options;
}

void Ddp::describe_updates(const Job& job, UpdateSchedule& schedule) const {
  if (never_drains(job)) {
    update_by_stage(job, schedule);
    return;
  }
  if (job.mesh.copies() == 1) return;
  const DdpOptions options = options_for(job, options_);
  CompressedMean& reduction = schedule.mean;
  reduction.element = element_of(options, job.step->precision);
  std::visit(Compressed{reduction, options.power_sgd_rank}, options.comm_hook);
  if (!differs_by_bucket(reduction.compression)) return;
  for (const Bucket& bucket : ddp_buckets(job, options).later) {
    reduction.buckets.push_back(bucket.tensors);
  }
}

}  // namespace lockstep
