// Divides the batch of an optimizer step: first among replicas, then into micro-batches. A scenario
// gives some of the fields global, per_gpu, micro and accumulation; the others follow. Every
// division must be exact, because training with a remainder would be a different training.
#include "points/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace lockstep {

namespace {

// Returns whole / parts. Throws std::invalid_argument with the message `quantity` if a remainder is
// left.
std::int64_t exact_quotient(std::int64_t whole, std::int64_t parts, const std::string& quantity) {
  if (parts <= 0 || whole % parts != 0) throw std::invalid_argument(quantity);
  return whole / parts;
}

// Returns the number of micro-batches as an int, at least 1. Throws std::invalid_argument if there
// are more than most_accumulation.
int checked_accumulation(std::int64_t micro_batches) {
  if (micro_batches > most_accumulation) {
    throw std::invalid_argument(fmt::format("{} micro-batches per step are too many, at most {}",
                                            micro_batches, most_accumulation));
  }
  return static_cast<int>(std::max<std::int64_t>(1, micro_batches));
}

}  // namespace

BatchSplit split_batch(const BatchSpec& batch, int replicas, int replica_gpus) {
  BatchSplit split;
  const std::string of = replica_gpus == 1 ? "GPU" : "replica";
  std::int64_t per_gpu = batch.per_gpu;
  if (batch.global > 0) {
    per_gpu = exact_quotient(
        batch.global, replicas,
        fmt::format("global batch {} does not divide among {} {}s", batch.global, replicas, of));
  }
  if (per_gpu == 0) {  // only the micro-batch is given
    split.accumulation = checked_accumulation(batch.accumulation);
    split.micro = batch.micro;
  } else if (batch.micro > 0) {
    split.micro = batch.micro;
    split.accumulation = checked_accumulation(
        exact_quotient(per_gpu, batch.micro,
                       fmt::format("{} samples per {} are no whole number of micro-batches of {}",
                                   per_gpu, of, batch.micro)));
    if (batch.accumulation > 0 && batch.accumulation != split.accumulation) {
      throw std::invalid_argument(fmt::format("accumulation {} contradicts {} micro-batches of {}",
                                              batch.accumulation, split.accumulation, batch.micro));
    }
  } else {
    split.accumulation = checked_accumulation(batch.accumulation);
    split.micro =
        exact_quotient(per_gpu, split.accumulation,
                       fmt::format("{} samples per {} do not divide into {} micro-batches", per_gpu,
                                   of, split.accumulation));
  }
  split.global = split.micro * split.accumulation * replicas;  // below 2^63: see the limits
  return split;
}

}  // namespace lockstep
