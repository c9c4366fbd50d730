// Describes DDP's compression of gradients for the replay of updates (calibrate/convergence/compression.hpp).
#include "results/schedule.hpp"
#include "strategies/ddp/ddp.hpp"
#include "strategies/ddp/plan.hpp"

namespace lockstep {

namespace {

// Two bytes are those of the products, or of the hook that casts to them; bf16 where both are wider.
GradientElement element_of(const DdpOptions& options, Precision precision) {
  if (std::holds_alternative<Fp16Hook>(options.comm_hook)) return GradientElement::fp16;
  if (std::holds_alternative<Bf16Hook>(options.comm_hook)) return GradientElement::bf16;
  if (options.gradient_bytes != 2) return GradientElement::fp32;
  return math_mode(precision) == MathMode::fp16 ? GradientElement::fp16 : GradientElement::bf16;
}

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

// Signs and matrices are the same in any bucket.
bool differs_by_bucket(Compression compression) {
  return compression != Compression::none && compression != Compression::sign &&
         compression != Compression::powersgd;
}

}  // namespace

void Ddp::describe_updates(const Job& job, UpdateSchedule& schedule) const {
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
