// Do the orderings that must hold between memory plans hold for random networks?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "memory/step_memory.hpp"
#include "networks.hpp"
#include "sharded.hpp"

namespace lockstep::step_memory_property_test {
namespace {

// A network of `blocks` equal blocks; each has a few linear layers of random widths and a residual
// sum.
TrainingStep residual_network(int blocks, const std::vector<int>& widths, int batch) {
  TrainingStep step;
  step.input_bytes = 1024.0 * batch;
  int storage = 1;
  for (int block = 0; block < blocks; ++block) {
    const std::string name = "h." + std::to_string(block);
    const int entry = static_cast<int>(step.layers.size()) - 1;
    double bytes = 65536.0 * batch;
    for (std::size_t i = 0; i <= widths.size(); ++i) {
      const int index = static_cast<int>(step.layers.size());
      const double out = i < widths.size() ? 1024.0 * widths[i] * batch : 65536.0 * batch;
      Layer layer =
          linear_layer(index, name, bytes, out, 1024 * (64 + (i < widths.size() ? widths[i] : 0)));
      layer.saved[0].storage = index > 0 ? step.layers[index - 1].output_storage : 0;
      layer.output_storage = storage++;
      step.layers.push_back(layer);
      bytes = out;
    }
    if (entry < 0) continue;
    Layer sum;
    sum.name = name + ".sum";
    sum.flow = GradientFlow::passes;
    sum.block = name;
    sum.inputs = {static_cast<int>(step.layers.size()) - 1, entry};
    sum.output_bytes = bytes;
    sum.output_storage = storage++;
    step.layers.push_back(sum);
  }
  return step;
}

double parameters(const TrainingStep& step) {
  double count = 0;
  for (const Layer& layer : step.layers) {
    for (const Parameter& parameter : layer.parameters) count += parameter.count;
  }
  return count;
}

TrainingStep random_network(int batch) {
  const int blocks = *rc::gen::inRange(4, 12);
  const auto widths =
      *rc::gen::container<std::vector<int>>(*rc::gen::inRange(1, 5), rc::gen::inRange(1, 512));
  return residual_network(blocks, widths, batch);
}

Device host() {
  Device device = bare_gpu(1e15);
  device.architecture = Architecture::cpu;  // counts bytes without rounding
  return device;
}

RC_GTEST_PROP(StepMemoryProperty, IsNeverBelowTheStatesItMustHold, ()) {
  const TrainingStep step = random_network(*rc::gen::inRange(1, 64));
  MemoryPlan plan;
  plan.optimizer.state_bytes_per_element = 8;
  plan.replicated.bucket_bytes = {4 * parameters(step)};
  for (const Device& device : {bare_gpu(1e15), host()}) {
    const StepMemory memory = step_memory(step, plan, device);
    RC_ASSERT(memory.allocated >= 20 * parameters(step));
    RC_ASSERT(memory.reserved >= memory.allocated);
    RC_ASSERT(memory.device >= memory.reserved);
    RC_ASSERT(memory.allocated >= memory.after_forward + 16 * parameters(step));
    double sum = 0;
    for (const auto& [kind, bytes] : memory.at_peak) sum += bytes;
    RC_ASSERT(sum == memory.allocated);
    RC_ASSERT(!memory.out_of_memory);
  }
}

RC_GTEST_PROP(StepMemoryProperty, GrowsWithTheBatch, ()) {
  const int blocks = *rc::gen::inRange(1, 12);
  const auto widths = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(1, 512));
  const int batch = *rc::gen::inRange(1, 64);
  const auto need = [&](int samples, const Device& device) {
    return step_memory(residual_network(blocks, widths, samples), {}, device).allocated;
  };
  RC_ASSERT(need(batch, host()) < need(batch + 1, host()));
  RC_ASSERT(need(batch, bare_gpu(1e15)) < need(2 * batch, bare_gpu(1e15)));
}

RC_GTEST_PROP(StepMemoryProperty, MoreShardingNeedsLess, ()) {
  const TrainingStep step = random_network(*rc::gen::inRange(1, 16));
  const int version = *rc::gen::element(1, 2);
  const auto need = [&](int ranks, bool keep, int which) {
    Sharded plan = sharded(step, which, ranks, keep);
    plan.optimizer.state_bytes_per_element = 8;
    return sharded_memory(step, plan, host()).allocated;
  };
  const double full = need(8, false, version);
  const double grad_op = need(8, true, version);
  const double none = need(1, false, 1);
  RC_ASSERT(full <= grad_op);
  RC_ASSERT(grad_op <= none);
  RC_ASSERT(need(16, false, version) <= full);
}

RC_GTEST_PROP(StepMemoryProperty, CheckpointingNeverNeedsMore, ()) {
  TrainingStep step = random_network(*rc::gen::inRange(1, 64));
  const StepMemory plain = step_memory(step, {}, host());
  for (Layer& layer : step.layers) layer.checkpointed = true;
  const StepMemory checkpointed = step_memory(step, {}, host());
  RC_ASSERT(checkpointed.allocated <= plain.allocated);
  RC_ASSERT(checkpointed.after_forward < plain.after_forward);
}

RC_GTEST_PROP(StepMemoryProperty, FitsExactlyWhatItReserves, ()) {
  const TrainingStep step = random_network(*rc::gen::inRange(1, 64));
  const StepMemory roomy = step_memory(step, {}, bare_gpu(1e15));
  const StepMemory exact = step_memory(step, {}, bare_gpu(roomy.reserved));
  RC_ASSERT(!exact.out_of_memory);
  RC_ASSERT(exact.allocated == roomy.allocated);
  // With less memory than the tensors that live at once, no strategy of the allocator helps.
  const StepMemory small = step_memory(step, {}, bare_gpu(roomy.allocated - 2 * mib));
  RC_ASSERT(small.out_of_memory);
  RC_ASSERT(small.shortfall > 0);
}

RC_GTEST_PROP(StepMemoryProperty, IsTheSameWhoeverKnewIt, ()) {
  const TrainingStep step = random_network(*rc::gen::inRange(1, 64));
  const double needed = step_memory(step, {}, bare_gpu(1e15)).device;
  const Device device = bare_gpu(needed * *rc::gen::element(0.5, 0.95, 1.05, 10.0));
  KnownMemory known;
  for (int i = 0; i < 6; ++i) {
    MemoryPlan plan;
    plan.micro_batches = *rc::gen::inRange(1, 6);
    plan.communication_bytes = needed * *rc::gen::element(0.0, 0.03, 0.1);
    plan.optimizer.state_bytes_per_element = *rc::gen::element(0.0, 8.0);
    const StepMemory walked = step_memory(step, plan, device);
    const StepMemory found = step_memory(step, plan, device, {.known = &known});
    RC_ASSERT(found.allocated == walked.allocated && found.reserved == walked.reserved);
    RC_ASSERT(found.device == walked.device && found.retries == walked.retries);
    RC_ASSERT(found.moment == walked.moment && found.at_peak == walked.at_peak);
    RC_ASSERT(found.out_of_memory == walked.out_of_memory);
    RC_ASSERT(found.after_forward == walked.after_forward);
  }
}

// A replay with a limit ends early only if more memory than the limit is needed; otherwise it is
// exact.
RC_GTEST_PROP(StepMemoryProperty, IsAboveWhatIsAskedAboutOrExact, ()) {
  const TrainingStep step = random_network(*rc::gen::inRange(1, 64));
  const StepMemory whole = step_memory(step, {}, bare_gpu(1e15));
  const double most = whole.device * *rc::gen::element(0.1, 0.5, 0.9, 0.999, 1.0, 2.0);
  const StepMemory asked = step_memory(step, {}, bare_gpu(1e15), {.most = most});
  RC_ASSERT((asked.device > most) == (whole.device > most));
  RC_ASSERT(asked.device <= whole.device);
  RC_ASSERT(whole.device > most || asked.at_peak == whole.at_peak);
}

RC_GTEST_PROP(StepMemoryProperty, IsTheSameEveryTime, ()) {
  const TrainingStep step = random_network(*rc::gen::inRange(1, 64));
  const StepMemory one = step_memory(step, {}, bare_gpu());
  const StepMemory two = step_memory(step, {}, bare_gpu());
  RC_ASSERT(one.allocated == two.allocated && one.reserved == two.reserved);
  RC_ASSERT(one.moment == two.moment && one.at_peak == two.at_peak);
}

}  // namespace
}  // namespace lockstep::step_memory_property_test
