// Does a rank that holds the whole model need the memory that a calculation by hand gives? All
// sizes are multiples of 2 MiB and above 10 MiB, so that every tensor has a segment of its own.
#include <gtest/gtest.h>

#include "memory/step_memory.hpp"
#include "networks.hpp"

namespace lockstep::replicated_test {
namespace {

// Three layers with activations of 16 MiB and weights of 12 Mi elements, 48 MiB.
constexpr double a = 16 * mib, w = 48 * mib;
TrainingStep three_layers() {
  return chain(3, a, 12 * 1024 * 1024);
}

TEST(ReplicatedMemory, ForwardKeepsTheInputsOfAllLayers) {
  const StepMemory memory = step_memory(three_layers(), {}, bare_gpu());
  // the first layer keeps the step's input, which is not counted
  EXPECT_EQ(memory.after_forward, 2 * a);
}

TEST(ReplicatedMemory, PeakWithoutStateIsAtTheEndOfBackward) {
  const StepMemory memory = step_memory(three_layers(), {}, bare_gpu());
  // At the end of backward there are the parameters, the step's input, all three weight gradients,
  // and the gradient of fc0's output. The saved activations are gone. (In fc1's backward there are
  // 5w + 4a.)
  EXPECT_EQ(memory.allocated, 3 * w + a + 3 * w + a);
  EXPECT_EQ(memory.moment, "backward of fc0");
  EXPECT_EQ(memory.at_peak.at("parameters"), 3 * w);
  EXPECT_EQ(memory.at_peak.at("gradients"), 3 * w);
  EXPECT_EQ(memory.at_peak.at("inputs"), a);
  EXPECT_EQ(memory.at_peak.at("activation gradients"), a);
  EXPECT_FALSE(memory.out_of_memory);
}

TEST(ReplicatedMemory, OptimizerStateStaysFromTheFirstStepOn) {
  MemoryPlan plan;
  plan.optimizer.state_bytes_per_element = 8;
  const StepMemory memory = step_memory(three_layers(), plan, bare_gpu());
  EXPECT_EQ(memory.allocated, 3 * w + 6 * w + 3 * w + 2 * a);
  EXPECT_EQ(memory.at_peak.at("optimizer state"), 6 * w);
  plan.optimizer.temporary_bytes_per_element = 4;
  const StepMemory foreach_form = step_memory(three_layers(), plan, bare_gpu());
  EXPECT_EQ(foreach_form.moment, "optimizer step");
  EXPECT_EQ(foreach_form.allocated, 3 * w + 6 * w + 3 * w + 3 * w + a);
  EXPECT_EQ(foreach_form.at_peak.at("temporaries"), 3 * w);
}

TEST(ReplicatedMemory, BucketsAreASecondCopyOfTheGradients) {
  const double single = step_memory(three_layers(), {}, bare_gpu()).allocated;
  MemoryPlan plan;
  plan.replicated.bucket_bytes = {w, 2 * w};
  EXPECT_EQ(step_memory(three_layers(), plan, bare_gpu()).allocated, single + 3 * w);
}

TEST(ReplicatedMemory, BucketViewsLeaveOneTransientGradient) {
  MemoryPlan plan;
  plan.replicated.bucket_bytes = {w, 2 * w};
  plan.replicated.gradient_as_bucket_view = true;
  const StepMemory memory = step_memory(three_layers(), plan, bare_gpu());
  // In fc2's backward there are the parameters, the buckets, the step's input, two saved
  // activations, the gradient of fc2's input and one weight gradient. (The gradient of fc2's output
  // comes from the loss and is not allocated.) fc1's backward needs as much, with two activation
  // gradients and one saved activation.
  EXPECT_EQ(memory.allocated, 3 * w + 3 * w + a + 2 * a + a + w);
  EXPECT_EQ(memory.at_peak.at("gradients"), w);
  EXPECT_EQ(memory.at_peak.at("buckets"), 3 * w);
}

TEST(ReplicatedMemory, CompressionHoldsHalfABucketMore) {
  MemoryPlan plan;
  plan.replicated.bucket_bytes = {w, 2 * w};
  const double plain = step_memory(three_layers(), plan, bare_gpu()).allocated;
  plan.replicated.hook_temporary_fraction = 0.5;
  const double compressed = step_memory(three_layers(), plan, bare_gpu()).allocated;
  EXPECT_EQ(compressed, plain + w);  // half of the second bucket, which fc0's gradient completes
  plan.replicated.hook_temporary_fraction = 0;
  plan.replicated.hook_state_bytes = 3 * w;  // PowerSGD
  EXPECT_EQ(step_memory(three_layers(), plan, bare_gpu()).allocated, plain + 3 * w);
}

TEST(ReplicatedMemory, AccumulationAddsOneTransientGradient) {
  MemoryPlan plan;
  plan.micro_batches = 4;
  const StepMemory memory = step_memory(three_layers(), plan, bare_gpu());
  // In the second micro-batch all gradients stay, and a layer's fresh gradient lies beside them.
  // The peak is fc2's backward, where all saved activations are still there.
  EXPECT_EQ(memory.allocated, 3 * w + 3 * w + w + a + 2 * a + a);
}

// With bf16 parameters a fresh gradient has w / 2 bytes. The main gradients are fp32 and stay for
// the whole step, in the buckets if there are any.
TEST(ReplicatedMemory, MainGradientsStayForGood) {
  TrainingStep step = three_layers();
  step.precision = Precision::master_bf16_fp32_gradients;
  const double parameters = 3 * (w / 2), gradients = 3 * w;
  const StepMemory memory = step_memory(step, {}, bare_gpu());
  // In fc2's backward there are its fresh gradient, two saved activations, the step's input, and
  // the gradient of fc2's input.
  EXPECT_EQ(memory.allocated, parameters + gradients + w / 2 + 4 * a);
  EXPECT_EQ(memory.at_peak.at("gradients"), gradients + w / 2);
  MemoryPlan plan;
  plan.micro_batches = 4;
  EXPECT_EQ(step_memory(step, plan, bare_gpu()).allocated, memory.allocated);
  plan.replicated.bucket_bytes = {w, 2 * w};
  const StepMemory bucketed = step_memory(step, plan, bare_gpu());
  EXPECT_EQ(bucketed.allocated, memory.allocated);
  EXPECT_EQ(bucketed.at_peak.at("buckets"), gradients);
}

// nanotron: fp32 gradients for good; those of bf16, as large as w / 2, stay until backward has ended.
TEST(ReplicatedMemory, GradientsThatJoinLateStayToTheEndOfBackward) {
  TrainingStep step = three_layers();
  step.precision = Precision::master_bf16_fp32_gradients;
  MemoryPlan plan;
  plan.replicated.gradients_join_late = true;
  const StepMemory memory = step_memory(step, plan, bare_gpu());
  // fc1's backward: parameters, the fp32 gradients, two of bf16, the input, what fc1 saved and two gradients of
  // activations. (fc0's has three of bf16 and 2a.)
  EXPECT_EQ(memory.allocated, 3 * (w / 2) + 3 * w + 2 * (w / 2) + 4 * a);
  EXPECT_EQ(memory.moment, "backward of fc1");
  plan.micro_batches = 4;
  EXPECT_EQ(step_memory(step, plan, bare_gpu()).allocated, memory.allocated);
  plan.replicated.bucket_bytes = {w / 2, w};  // DDP's, of bf16
  EXPECT_EQ(step_memory(step, plan, bare_gpu()).allocated, memory.allocated + 3 * (w / 2));
}

TEST(ReplicatedMemory, AutocastWeightCopiesLiveUntilTheirLayersBackward) {
  TrainingStep step = three_layers();
  for (int i = 0; i < 3; ++i) step.layers[i].saved.push_back(weight_copy(w / 2, i));
  EXPECT_EQ(step_memory(step, {}, bare_gpu()).after_forward, 2 * a + 3 * (w / 2));
}

TEST(ReplicatedMemory, CheckpointedAutocastCopiesLiveUntilForwardEnds) {
  TrainingStep step = three_layers();
  for (int i = 0; i < 3; ++i) {
    step.layers[i].saved.push_back(weight_copy(w / 2, i));
    step.layers[i].checkpointed = true;
  }
  const StepMemory memory = step_memory(step, {}, bare_gpu());
  EXPECT_EQ(memory.after_forward, 2 * a);
}

TEST(ReplicatedMemory, CheckpointingKeepsBlockInputsAndOneBlock) {
  // Two blocks of three layers.
  TrainingStep step = chain(6, a, 1024);
  for (int i = 0; i < 6; ++i) step.layers[i].block = i < 3 ? "h.0" : "h.1";
  EXPECT_EQ(step_memory(step, {}, bare_gpu()).after_forward, 5 * a);
  for (Layer& layer : step.layers) layer.checkpointed = true;
  EXPECT_EQ(step_memory(step, {}, bare_gpu()).after_forward, a);  // the input of h.1
}

TEST(ReplicatedMemory, KeptOutputsStayThroughForward) {
  // Two blocks of three layers, of which the second keeps its output: the input of h.1 stays, and
  // one output of each block.
  TrainingStep step = chain(6, a, 1024);
  for (int i = 0; i < 6; ++i) {
    step.layers[i].block = i < 3 ? "h.0" : "h.1";
    step.layers[i].checkpointed = true;
    step.layers[i].keeps_output = i % 3 == 1;
  }
  const double kept = step_memory(step, {}, bare_gpu()).after_forward;
  EXPECT_EQ(kept, 3 * a);
  // Recomputation does not allocate the kept output a second time: h.1's backward has its three
  // inputs in both cases.
  for (Layer& layer : step.layers) layer.keeps_output = false;
  const StepMemory whole = step_memory(step, {}, bare_gpu());
  for (Layer& layer : step.layers) layer.keeps_output = layer.name == "fc4";
  EXPECT_EQ(step_memory(step, {}, bare_gpu()).allocated, whole.allocated);
}

TEST(ReplicatedMemory, CheckpointedBlockKeepsAnInputThatNobodySaves) {
  TrainingStep step = chain(6, a, 1024);
  for (int i = 0; i < 6; ++i) {
    step.layers[i].block = i < 3 ? "h.0" : "h.1";
    step.layers[i].checkpointed = true;
  }
  step.layers[3].saved.clear();
  EXPECT_EQ(step_memory(step, {}, bare_gpu()).after_forward, a);
}

TEST(ReplicatedMemory, ResidualGradientIsSharedAndThenAddedInPlace) {
  // The network is y = fc0(x); sum = fc1(y) + y; fc3(sum). The gradient of the sum serves both
  // branches, and the gradient of fc1's input is added in place.
  TrainingStep step = chain(2, a, 1024);
  step.layers[0].saved.push_back({"output", a, 1, 0});
  Layer sum;
  sum.name = "sum";
  sum.flow = GradientFlow::passes;
  sum.inputs = {1, 0};
  sum.output_bytes = a;
  sum.output_storage = 3;
  step.layers.push_back(sum);
  Layer head = linear_layer(3, "", a, 512, 1024);
  head.inputs = {2};
  head.saved.clear();
  head.output_storage = 4;
  step.layers.push_back(head);
  const StepMemory memory = step_memory(step, {}, bare_gpu());
  // The peak is in fc1's backward: the step's input, y, the shared gradient, and the gradient of
  // fc1's input. A sum out of place would need one more `a`.
  EXPECT_GE(memory.allocated, 4 * a);
  EXPECT_LT(memory.allocated, 4 * a + mib);
}

TEST(ReplicatedMemory, ConcatenationsGradientIsSlicedAndSumsAreNewTensors) {
  // The network is y = fc0(x); both = concat(y, fc1(y)); fc3(both). The first gradient of y is a
  // slice of the concatenation's gradient. Its sum with fc1's gradient therefore needs a tensor of
  // its own, while the whole slice and fc1's gradient are still there.
  TrainingStep step = chain(2, a, 1024);
  step.layers[0].saved.push_back({"output", a, 1, 0});
  Layer both;
  both.name = "both";
  both.flow = GradientFlow::slices;
  both.inputs = {0, 1};
  both.output_bytes = 2 * a;
  both.output_storage = 3;
  step.layers.push_back(both);
  Layer head = linear_layer(3, "", 2 * a, 512, 1024);
  head.inputs = {2};
  head.saved.clear();
  head.output_storage = 4;
  step.layers.push_back(head);
  const StepMemory memory = step_memory(step, {}, bare_gpu());
  EXPECT_GE(memory.allocated, a + a + 2 * a + a + a);
  EXPECT_LT(memory.allocated, a + a + 2 * a + a + a + mib);
}

// DDP replaces its single bucket by the list of buckets before the second forward, when the
// gradients of the first step are gone. The bucket of half a weight takes the hole of a gradient,
// and this gradient then needs a new segment.
TEST(ReplicatedMemory, BucketsAreRebuiltBeforeTheSecondStep) {
  MemoryPlan plan;
  plan.replicated.bucket_bytes = {w / 2, 2.5 * w};
  const StepMemory rebuilt = step_memory(three_layers(), plan, bare_gpu());
  plan.replicated.rebuilds_buckets = false;
  const StepMemory kept = step_memory(three_layers(), plan, bare_gpu());
  EXPECT_EQ(rebuilt.allocated, kept.allocated);
  EXPECT_EQ(rebuilt.reserved, kept.reserved + w);
}

TEST(ReplicatedMemory, TiedHeadGradientIsThereFromTheStartOfBackward) {
  TrainingStep step = chain(3, a, 12 * 1024 * 1024);
  step.layers[0].kind = "embedding";
  step.layers[2].parameters.clear();
  step.layers[2].tied_layer = 0;
  const StepMemory tied = step_memory(step, {}, bare_gpu());
  EXPECT_EQ(tied.at_peak.at("parameters"), 2 * w);
  // In fc0's backward there are the waiting gradient of the tied head, fc1's gradient, the
  // embedding's own gradient, and the sum of the two tied parts.
  EXPECT_EQ(tied.at_peak.at("gradients"), 4 * w);
  EXPECT_EQ(tied.moment, "backward of fc0");
  // The cast of autocast's head gives back a tensor of its own, to which the embedding's part is added.
  step.precision = Precision::amp_bf16;
  EXPECT_EQ(step_memory(step, {}, bare_gpu()).at_peak.at("gradients"), 3 * w);
}

// Two weights have the same size, so only `tied_layer` tells which gradient waits, and for how
// long.
TEST(ReplicatedMemory, TiedGradientWaitsForTheLayerItNames) {
  TrainingStep step = chain(3, a, 12 * 1024 * 1024);
  step.layers[2].parameters.clear();
  step.layers[2].tied_layer = 1;
  const StepMemory tied = step_memory(step, {}, bare_gpu());
  EXPECT_EQ(tied.at_peak.at("parameters"), 2 * w);
  // fc1's backward adds the head's gradient to its own, out of place; in fc0's backward only the
  // sum remains.
  EXPECT_EQ(tied.at_peak.at("gradients"), 3 * w);
  EXPECT_EQ(tied.moment, "backward of fc1");
}

TEST(ReplicatedMemory, CublasWorkspaceIsThereDuringAProductOnly) {
  Device device = bare_gpu();
  device.matmul_workspace_bytes = 8'519'680;  // fact 124
  MemoryPlan plan;
  plan.optimizer.state_bytes_per_element = 8;
  plan.optimizer.temporary_bytes_per_element = 4;
  const StepMemory with = step_memory(three_layers(), plan, device);
  const StepMemory without = step_memory(three_layers(), plan, bare_gpu());
  EXPECT_EQ(with.moment, "optimizer step");
  EXPECT_EQ(with.allocated, without.allocated);  // no product runs at the peak
  EXPECT_GT(with.reserved, without.reserved);
}

// If a profile states how much memory libraries keep, this memory is always there, and a product
// needs no more.
TEST(ReplicatedMemory, WorkspaceThatIsKeptIsThereAtThePeak) {
  Device device = bare_gpu();
  device.matmul_workspace_bytes = 8'519'680;
  device.kept_workspace_bytes = 64 * 1024 * 1024;
  const StepMemory with = step_memory(three_layers(), {}, device);
  const StepMemory without = step_memory(three_layers(), {}, bare_gpu());
  EXPECT_EQ(with.allocated - without.allocated, 64 * 1024 * 1024);
  EXPECT_EQ(with.at_peak.at("workspace"), 64 * 1024 * 1024);
}

TEST(ReplicatedMemory, ForLoopOptimizersNeedTemporariesOfTheTensorInHand) {
  MemoryPlan plan;
  plan.optimizer.state_bytes_per_element = 8;
  const StepMemory without = step_memory(three_layers(), plan, bare_gpu());
  plan.optimizer.loop.scratch = 4;
  const StepMemory with = step_memory(three_layers(), plan, bare_gpu());
  EXPECT_EQ(with.moment, "optimizer step");
  EXPECT_EQ(with.at_peak.at("temporaries"), w);
  EXPECT_GT(with.allocated, without.allocated);
  // The denominator of the tensor before is there until this one has its own.
  plan.optimizer.loop.kept = 4;
  EXPECT_EQ(step_memory(three_layers(), plan, bare_gpu()).at_peak.at("temporaries"), 3 * w);
  plan.optimizer.loop.decayed = 4;
  EXPECT_EQ(step_memory(three_layers(), plan, bare_gpu()).at_peak.at("temporaries"), 4 * w);
}

TEST(ReplicatedMemory, ATensorOfAnotherRuleHasStateAndTemporariesOfItsOwn) {
  MemoryPlan plan;
  plan.optimizer.state_bytes_per_element = 8;
  plan.optimizer.temporary_bytes_per_element = 4;
  plan.optimizer.others.push_back({1, 4, 4, {w, w}});
  const StepMemory memory = step_memory(three_layers(), plan, bare_gpu());
  EXPECT_EQ(memory.moment, "optimizer step");
  EXPECT_EQ(memory.at_peak.at("optimizer state"), (2 + 1 + 2) * w);
  // The peak has the tensor's own two temporaries and the one that it keeps for the whole step. The
  // lists of all three tensors need as much.
  EXPECT_EQ(memory.at_peak.at("temporaries"), 3 * w);
  plan.optimizer.others[0].temporaries.push_back(w);
  EXPECT_EQ(step_memory(three_layers(), plan, bare_gpu()).at_peak.at("temporaries"), 4 * w);
}

TEST(ReplicatedMemory, DeviceAddsContextAndCommunicationBuffers) {
  Device device = bare_gpu();
  device.context_bytes = 500 * mib;
  MemoryPlan plan;
  plan.communication_bytes = 288 * mib;
  const StepMemory memory = step_memory(three_layers(), plan, device);
  EXPECT_EQ(memory.device, memory.reserved + 788 * mib);
  EXPECT_GE(memory.reserved, memory.allocated);
}

TEST(ReplicatedMemory, OutOfMemoryTellsWhatIsMissingAndWhere) {
  const StepMemory roomy = step_memory(three_layers(), {}, bare_gpu());
  const StepMemory exact = step_memory(three_layers(), {}, bare_gpu(roomy.reserved));
  EXPECT_FALSE(exact.out_of_memory);
  EXPECT_EQ(exact.shortfall, 0);
  const StepMemory small = step_memory(three_layers(), {}, bare_gpu(260 * mib));
  EXPECT_TRUE(small.out_of_memory);
  EXPECT_EQ(small.failed_at, "backward of fc1");
  EXPECT_EQ(small.shortfall, small.reserved - 260 * mib);
  EXPECT_GE(small.retries, 1);
}

TEST(ServerMemory, HoldsParametersStateAndQueuedGradients) {
  ServerPlan plan;
  plan.tensor_elements = {12.0 * 1024 * 1024, 12.0 * 1024 * 1024};
  plan.optimizer.state_bytes_per_element = 4;
  plan.receive_buffers = 2;
  const StepMemory memory = server_memory(plan, bare_gpu());
  EXPECT_EQ(memory.allocated, (1 + 1 + 2) * 2 * w);
  // With bf16 parameters and fp32 gradients, received gradients are larger than the parameters.
  plan.element_bytes = 2;
  EXPECT_EQ(server_memory(plan, bare_gpu()).allocated, (0.5 + 1 + 2) * 2 * w);
}

TEST(ServerMemory, ATensorOfAnotherRuleOnAServer) {
  ServerPlan plan;
  plan.tensor_elements = {12.0 * 1024 * 1024, 12.0 * 1024 * 1024};
  plan.optimizer.state_bytes_per_element = 8;
  plan.optimizer.others.push_back({1, 4, 0, {w / 2, w / 2, w}});
  EXPECT_EQ(server_memory(plan, bare_gpu()).allocated, (2 + 2 + 2 + 1 + 2) * w);
}

}  // namespace
}  // namespace lockstep::replicated_test
