// Draws jobs: the time since the last submission (exponential, a Poisson process), an entry of the
// mix by its weight, then the GPUs and the length. Each draw has a key of its own (seed, job
// number, kind of draw), so job 7 is the same job in a list of 10 and in a list of 10,000.
#include "cluster/generated.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/random.hpp"

namespace lockstep {

namespace {

// The last number of a draw's key. Each job has four independent draws.
enum Draw : std::uint32_t { arrival, which, how_many, how_long };

// A job's length in seconds: a constant, or a draw of the given mean or median.
double seconds_of(const Length& length, const DrawKey& key) {
  if (const auto* fixed = std::get_if<FixedLength>(&length)) return fixed->seconds;
  if (const auto* exponential = std::get_if<ExponentialLength>(&length)) {
    return exponential->mean * exponential_draw(key);
  }
  const auto& lognormal = std::get<LognormalLength>(length);
  return lognormal.median * lognormal_draw(key, lognormal.sigma);
}

}  // namespace

std::vector<JobSpec> generated_jobs(const GeneratedSpec& spec) {
  // `now`: the submission of the job, in seconds.
  double weights = 0, now = 0;
  for (const MixSpec& mix : spec.mix) weights += mix.weight;
  std::vector<JobSpec> jobs;
  for (int i = 0; i < spec.count; ++i) {
    const auto key = [&](Draw draw) {
      return DrawKey{static_cast<std::uint64_t>(spec.seed), 0, static_cast<std::uint32_t>(i), draw};
    };
    // Mean time between arrivals: 3600 s / arrivals per hour.
    now += 3600 / spec.per_hour * exponential_draw(key(arrival));
    // A uniform number in [0, sum of weights) lies in the interval of exactly one entry. The bound
    // on `chosen` guards against a rounding remainder after the last interval.
    double left = weights * uniform_draw(key(which));
    std::size_t chosen = 0;
    while (chosen + 1 < spec.mix.size() && left > spec.mix[chosen].weight) {
      left -= spec.mix[chosen++].weight;
    }
    const MixSpec& mix = spec.mix[chosen];
    const auto size = static_cast<std::size_t>(uniform_draw(key(how_many)) *
                                               static_cast<double>(mix.gpus.size()));
    JobSpec job;
    job.name = fmt::format("{}", i + 1);
    job.workload = mix.workload;
    job.submit = now;
    job.gpus = mix.gpus[size];
    job.duration = seconds_of(mix.duration, key(how_long));
    // Errors about a generated job point to the entry of the mix that it comes from.
    job.where = mix.where;
    job.gpus_where = mix.gpus_where;
    job.workload_where = mix.workload_where;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace lockstep
