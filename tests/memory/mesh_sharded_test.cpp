// Does a rank that shards its part of a mesh with FSDP2 need the memory that genuine PyTorch's
// allocator reports? The rows are peaks of torch.cuda.max_memory_allocated() over three steps,
// PyTorch 2.15 on a stub of the CUDA runtime, with DTensor's tensor parallelism, context_parallel,
// parameters in bf16 and reduction in fp32.
#include <gtest/gtest.h>

#include "sharded.hpp"
#include "workload/model.hpp"

namespace lockstep::mesh_sharded_test {
namespace {

enum class Again { nothing, blocks, operators };

struct ShardedRow {
  const char* name;
  std::int64_t tensor;
  bool sequence;  // sequence parallelism and a loss of split logits
  std::int64_t context;
  ContextExchange exchange;
  int data;
  Again again;
  bool large;  // 4 layers of 4096 features; else 8 of 2048
  std::int64_t tokens;
  double genuine;  // bytes: the genuine peak
};

class ShardedMesh : public testing::TestWithParam<ShardedRow> {};

StepOptions options_of(const ShardedRow& row) {
  StepOptions options;
  options.precision = Precision::pure_bf16;
  options.sequence = row.tokens;
  if (row.large) {
    options.parameters = {{"layers", 4},   {"hidden", 4096}, {"heads", 32},
                          {"kv_heads", 8}, {"mlp", 14336},   {"vocabulary", 128256}};
  } else {
    options.parameters = {{"layers", 8},   {"hidden", 2048}, {"heads", 16},
                          {"kv_heads", 4}, {"mlp", 5632},    {"vocabulary", 32000}};
  }
  options.parameters["fused_norm"] = options.parameters["upcast_loss"] = 1;
  options.parallel.tensor.size = row.tensor;
  options.parallel.tensor.sequence = options.parallel.tensor.split_loss = row.sequence;
  options.parallel.context.size = row.context;
  options.parallel.context.exchange = row.exchange;
  options.activation_checkpointing = row.again != Again::nothing;
  if (row.again == Again::operators) options.recompute = Recompute::operators;
  return options;
}

TEST_P(ShardedMesh, AgreesWithGenuinePyTorch) {
  const ShardedRow& row = GetParam();
  const TrainingStep step = build_step(*load_model("llama"), options_of(row));
  Sharded plan = sharded(step, 2, row.data * static_cast<int>(row.context));
  plan.layout.gather_bytes = 2;
  plan.optimizer = {8, 4};  // AdamW, foreach form
  Device device = load_device("a100-sxm4-80gb");
  device.memory_bytes = 1e12;
  const StepMemory memory = sharded_memory(step, plan, device);
  const double error = row.context > 1 ? 0.02 : 0.002;
  EXPECT_NEAR(memory.allocated, row.genuine, error * row.genuine) << memory.moment;
}

// Llama 3 8B with four layers on eight ranks, trained by torchtitan 0.3.0 with its loss in eight
// pieces, and with "loss": "plain" (calibrate/oracle/meshes/genuine.jsonl).
TEST(LossInPieces, AgreesWithGenuineTorchtitan) {
  for (const auto& [pieces, genuine] : {std::pair{8, 15271513600.0}, {1, 22218853376.0}}) {
    StepOptions options;
    options.precision = Precision::pure_bf16;
    options.sequence = 8192;
    options.parameters = {{"layers", 4},     {"hidden", 4096},   {"heads", 32},
                          {"kv_heads", 8},   {"mlp", 14336},     {"vocabulary", 128256},
                          {"fused_norm", 1}, {"upcast_loss", 1}, {"loss_pieces", pieces}};
    const TrainingStep step = build_step(*load_model("llama"), options);
    Sharded plan = sharded(step, 2, 8);
    plan.layout.gather_bytes = 2;
    plan.layout.units = make_units(step, {WrapPolicy::block_and_ends, 0});
    plan.layout.layouts.clear();
    for (const FsdpUnit& unit : plan.layout.units) {
      plan.layout.layouts.push_back(flat_layout(unit, 8));
    }
    plan.optimizer = {8};  // AdamW, fused
    Device device = load_device("h100-sxm5-80gb");
    device.memory_bytes = 1e12;
    const StepMemory memory = sharded_memory(step, plan, device);
    EXPECT_NEAR(memory.allocated, genuine, 0.005 * genuine) << memory.moment;
  }
}

constexpr auto gather = ContextExchange::gather, ring = ContextExchange::ring;

INSTANTIATE_TEST_SUITE_P(
    Genuine, ShardedMesh,
    testing::Values(
        ShardedRow{"tensor", 4, true, 1, gather, 2, Again::nothing, true, 4096, 6446593536},
        ShardedRow{"tensor_blocks", 2, true, 1, gather, 4, Again::blocks, true, 4096, 8259962368},
        ShardedRow{"tensor_operators", 2, true, 1, gather, 4, Again::operators, true, 4096,
                   8916375040},
        ShardedRow{"context", 1, false, 2, gather, 1, Again::nothing, true, 8192, 22901511168},
        ShardedRow{"context_ring", 1, false, 4, ring, 2, Again::blocks, true, 16384, 11493882880},
        ShardedRow{"both", 2, false, 2, gather, 1, Again::nothing, false, 8192, 4804256768}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace lockstep::mesh_sharded_test
