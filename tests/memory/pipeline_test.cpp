// Does a pipeline rank need the memory that genuine PyTorch reports, and that closed forms give?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "memory/step_memory.hpp"
#include "networks.hpp"
#include "parallel/schedule.hpp"
#include "workload/joined_parts.hpp"
#include "workload/model.hpp"

namespace lockstep::pipeline_test {
namespace {

using enum PipelineSchedule;

// The layers and the programs of the ranks of a pipeline.
struct Ranks {
  std::vector<JoinedParts> steps;
  std::vector<RankProgram> programs;
};
Ranks ranks_of(const TrainingStep& whole, PipelineSchedule schedule, const PipelineShape& shape,
               bool keep_outputs = true) {
  Ranks ranks;
  const std::vector<ModelPart> parts =
      cut(whole, even_cuts(whole, {}, shape.parts()), keep_outputs);
  for (int rank = 0; rank < shape.stages; ++rank) {
    std::vector<int> numbers;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      numbers.push_back(part_at(schedule, shape, {rank, chunk}));
    }
    ranks.steps.push_back(join(parts, numbers, keep_outputs));
  }
  ranks.programs = with_messages(schedule, shape, programs_of(schedule, shape), keep_outputs);
  return ranks;
}

std::vector<double> allocated(const TrainingStep& whole, PipelineSchedule schedule,
                              const PipelineShape& shape, const PipelineHolding& holding,
                              const MemoryPlan& plan, const Device& device) {
  const Ranks ranks = ranks_of(whole, schedule, shape, holding.keep_outputs);
  std::vector<double> bytes;
  for (std::size_t rank = 0; rank < ranks.steps.size(); ++rank) {
    bytes.push_back(
        pipeline_memory(ranks.steps[rank], ranks.programs[rank], holding, plan, device).allocated);
  }
  return bytes;
}

struct GenuineRow {
  PipelineSchedule schedule;
  int stages, chunks, micro_batches;
  Precision precision;
  std::vector<double> allocated;  // bytes, by rank
  bool return_outputs = false;
};

// The Llama of the oracle: 8 layers of 2048 features, 16 heads, 5632 features in the MLP, 32000
// words, 2048 tokens.
TrainingStep llama(Precision precision, bool checkpointed = false) {
  StepOptions options;
  options.precision = precision;
  options.sequence = 2048;
  options.activation_checkpointing = checkpointed;
  options.parameters = {{"layers", 8},     {"hidden", 2048},  {"heads", 16},
                        {"kv_heads", 16},  {"mlp", 5632},     {"vocabulary", 32000},
                        {"fused_norm", 1}, {"upcast_loss", 1}};
  return build_step(*load_model("llama"), options);
}

// AdamW in its foreach form.
MemoryPlan adam(Precision precision) {
  const double bytes = parameter_bytes(precision);
  MemoryPlan plan;
  plan.optimizer = {2 * bytes, bytes, bytes};
  return plan;
}

Device a100() {
  Device device = bare_gpu(1e12);
  device.matmul_workspace_bytes = 8519680;
  return device;
}

class GenuinePipeline : public testing::TestWithParam<GenuineRow> {};

TEST_P(GenuinePipeline, HasThePredictedMemory) {
  const GenuineRow& row = GetParam();
  const PipelineShape shape{row.stages, row.chunks, row.micro_batches};
  const std::vector<double> predicted =
      allocated(llama(row.precision), row.schedule, shape, {true, row.return_outputs},
                adam(row.precision), a100());
  ASSERT_EQ(predicted.size(), row.allocated.size());
  for (std::size_t rank = 0; rank < predicted.size(); ++rank) {
    EXPECT_NEAR(predicted[rank] / row.allocated[rank], 1, 0.015) << "rank " << rank;
  }
}

constexpr Precision fp32 = Precision::fp32, bf16 = Precision::pure_bf16;
// Rows of PyTorch 2.15's torch.distributed.pipelining on a CUDA runtime that computes nothing, with
// PyTorch's own schedules, autograd and allocator. Fact 12 explains `return_outputs`.
INSTANTIATE_TEST_SUITE_P(
    Rows, GenuinePipeline,
    testing::Values(
        GenuineRow{one_f_one_b, 2, 1, 4, fp32, {7008231424, 6764280320}},
        GenuineRow{one_f_one_b, 4, 1, 8, bf16, {2691112960, 1851955200, 1532891136, 2669148672}},
        GenuineRow{gpipe, 4, 1, 8, bf16, {3648305152, 3247898624, 3247898624, 7374131200}},
        GenuineRow{interleaved, 4, 2, 8, bf16, {3296586752, 2457428992, 2138364928, 3283011072}},
        GenuineRow{interleaved, 2, 2, 4, bf16, {3892029440, 4550885888}, true},
        GenuineRow{looped_bfs, 4, 2, 8, bf16, {3779526656, 3383164928, 3383164928, 7441240064}},
        GenuineRow{zb1p, 4, 2, 8, bf16, {2851545088, 2469863424, 2583109632, 4492489728}},
        GenuineRow{zbv, 4, 2, 8, bf16, {4178939392, 2348228608, 2498922496, 2784287744}},
        GenuineRow{dualpipe_v, 4, 2, 8, bf16, {4204104704, 2449040384, 2457428992, 2390320128}}));

constexpr double activation = 4 * mib, weight = 16 * mib;

// Six linear layers, one on each of six stages. A layer keeps its input.
TrainingStep linear_chain() {
  return chain(6, activation, static_cast<std::int64_t>(weight / 4));
}

// In 1F1B, rank r of p (neither first nor last) has its peak in a backward: its weight, the sum of
// gradients, a new gradient that is added to the sum, the inputs of p - r micro-batches in flight,
// and the gradients that arrived and leave (fact H67).
TEST(PipelineMemory, OfOneForwardOneBackward) {
  for (const int micro_batches : {8, 20}) {
    const std::vector<double> bytes =
        allocated(linear_chain(), one_f_one_b, {6, 1, micro_batches}, {}, {}, bare_gpu());
    for (int rank = 1; rank < 5; ++rank) {
      EXPECT_EQ(bytes[static_cast<std::size_t>(rank)],
                3 * weight + (6 - rank) * activation + 2 * activation)
          << "rank " << rank;
    }
  }
}

// In GPipe, a rank keeps the input and the sent output of every micro-batch until all forwards are
// done. From then on each backward frees an input; a sent gradient stays, because the rank waits
// for its sends only at the end of the step (fact H68).
TEST(PipelineMemory, OfGPipeGrowsWithMicroBatches) {
  for (const int micro_batches : {8, 20}) {
    const std::vector<double> bytes =
        allocated(linear_chain(), gpipe, {6, 1, micro_batches}, {}, {}, bare_gpu());
    for (int rank = 1; rank < 5; ++rank) {
      EXPECT_EQ(bytes[static_cast<std::size_t>(rank)],
                std::max(weight + 2 * micro_batches * activation,
                         3 * weight + (micro_batches + 2) * activation))
          << "rank " << rank;
    }
  }
}

// For the weights' gradients the zero-bubble paper keeps a layer's input and its output's gradient;
// PyTorch keeps the whole graph, which is more. The first rank is left out, because PyTorch does
// not halve its backward.
TEST(PipelineMemory, OfHalvedBackwardIsLessWithoutTheGraph) {
  const TrainingStep whole = llama(bf16);
  for (const auto& [schedule, chunks] : {std::pair{zb1p, 1}, {zb1p, 2}, {zb_h2, 1}, {zbv, 2}}) {
    const PipelineShape shape{4, chunks, 8};
    const auto paper = allocated(whole, schedule, shape, {false, false}, adam(bf16), a100());
    const auto pytorch = allocated(whole, schedule, shape, {true, false}, adam(bf16), a100());
    for (std::size_t rank = 1; rank < paper.size(); ++rank) {
      EXPECT_LT(paper[rank], pytorch[rank]) << enum_name(schedule) << " rank " << rank;
    }
  }
}

TEST(PipelineMemory, IsLessWithCheckpointing) {
  for (const PipelineSchedule schedule : {gpipe, one_f_one_b, interleaved, zb1p, zbv, dualpipe_v}) {
    const PipelineShape shape{2, usual_chunks(schedule), 8};
    const auto kept = allocated(llama(bf16), schedule, shape, {}, adam(bf16), a100());
    const auto again = allocated(llama(bf16, true), schedule, shape, {}, adam(bf16), a100());
    for (std::size_t rank = 0; rank < kept.size(); ++rank) {
      EXPECT_LT(again[rank], kept[rank]) << enum_name(schedule) << " rank " << rank;
    }
  }
}

// A shape that is cut to fewer micro-batches, once their memory has settled, has the peak of the
// whole shape.
TEST(PipelineMemory, IsSettledWithFewMicroBatches) {
  const TrainingStep whole = llama(bf16);
  for (const auto& [schedule, chunks] : {std::pair{one_f_one_b, 1},
                                         {interleaved, 2},
                                         {zb1p, 1},
                                         {zb_h2, 1},
                                         {zbv, 2},
                                         {dualpipe_v, 2}}) {
    const PipelineShape shape{2, chunks, 20};
    const PipelineShape settled = settled_shape(schedule, shape);
    EXPECT_LT(settled.micro_batches, 20) << enum_name(schedule);
    for (const bool keep_outputs : {true, false}) {
      PipelineHolding holding{keep_outputs};
      const auto many = allocated(whole, schedule, shape, holding, adam(bf16), a100());
      holding.further_micro_batches = 20 - settled.micro_batches;
      const auto few = allocated(whole, schedule, settled, holding, adam(bf16), a100());
      for (std::size_t rank = 0; rank < many.size(); ++rank) {
        EXPECT_NEAR(few[rank] / many[rank], 1, 2e-3) << enum_name(schedule) << " rank " << rank;
      }
    }
  }
}

// A step gives every block back: all steps have the same peak, and twice as many steps need no more
// memory.
RC_GTEST_PROP(PipelineMemory, LosesNothing, ()) {
  const PipelineSchedule schedule =
      *rc::gen::element(gpipe, one_f_one_b, interleaved, looped_bfs, zb1p, zb_h2, zbv, dualpipe_v);
  PipelineShape shape{*rc::gen::inRange(1, 4), usual_chunks(schedule), *rc::gen::inRange(1, 9)};
  RC_PRE(misfits_of(schedule, shape).empty());
  const PipelineHolding holding{*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>()};
  const TrainingStep whole = linear_chain();
  const Ranks ranks = ranks_of(whole, schedule, shape, holding.keep_outputs);
  for (std::size_t rank = 0; rank < ranks.steps.size(); ++rank) {
    MemoryLog log;
    pipeline_memory(ranks.steps[rank], ranks.programs[rank], holding, {}, bare_gpu(), {&log});
    const MemoryAccount& last = log.moments.back().after;
    RC_ASSERT(last[static_cast<std::size_t>(MemoryKind::activations)] == 0);
    RC_ASSERT(last[static_cast<std::size_t>(MemoryKind::activation_gradients)] == 0);
  }
}

}  // namespace
}  // namespace lockstep::pipeline_test
