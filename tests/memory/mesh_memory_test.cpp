// Does a rank of a mesh need the memory that genuine PyTorch's allocator reports? The rows are
// peaks of torch.cuda.max_memory_allocated() over three steps of DTensor's tensor parallelism,
// PyTorch 2.15, on a stub of the CUDA runtime. As on a single GPU, nothing reduces gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "memory/step_memory.hpp"
#include "workload/model.hpp"

namespace lockstep::mesh_memory_test {
namespace {

struct MeshRow {
  const char* name;
  ParallelOptions parallel;
  bool large;       // 4 layers of 4096 features, fp32, AdamW; else 8 of 2048, bf16, fused AdamW
  double backward;  // bytes: the genuine peak of forward and backward
  // Bytes: the genuine peak of the whole step. 0 = the peak lies in the update, where DTensor's
  // gradient of the embedding is still a view of the whole table's gradient; the simulator does not
  // model this.
  double peak;
};

ParallelOptions tensor(std::int64_t size, bool sequence, bool split_loss) {
  ParallelOptions parallel;
  parallel.tensor.size = size;
  parallel.tensor.sequence = sequence;
  parallel.tensor.split_loss = split_loss;
  return parallel;
}

StepOptions options_of(const MeshRow& row) {
  StepOptions options;
  options.parallel = row.parallel;
  if (row.large) {
    options.parameters = {{"layers", 4},   {"hidden", 4096}, {"heads", 32},
                          {"kv_heads", 8}, {"mlp", 14336},   {"vocabulary", 128256}};
    options.sequence = 4096;
    options.precision = Precision::fp32;
  } else {
    options.parameters = {{"layers", 8},    {"hidden", 2048}, {"heads", 16},
                          {"kv_heads", 16}, {"mlp", 5632},    {"vocabulary", 32000}};
    options.sequence = 2048;
    options.samples = 2;
    options.precision = Precision::pure_bf16;
  }
  options.parameters["fused_norm"] = options.parameters["upcast_loss"] = 1;
  return options;
}

class MeshMemory : public testing::TestWithParam<MeshRow> {};

TEST_P(MeshMemory, AgreesWithGenuinePyTorch) {
  const MeshRow& row = GetParam();
  const TrainingStep step = build_step(*load_model("llama"), options_of(row));
  MemoryPlan plan;
  if (row.large) {
    plan.optimizer = {8, 4};
  } else {
    plan.optimizer = {4};
  }
  Device device = load_device("a100-sxm4-80gb");
  device.memory_bytes = 1e12;
  const StepMemory memory = step_memory(step, plan, device);
  if (row.peak > 0) {
    EXPECT_NEAR(memory.allocated, row.peak, 0.005 * row.peak) << memory.moment;
  }
  plan.optimizer.temporary_bytes_per_element = 0;
  EXPECT_NEAR(step_memory(step, plan, device).allocated, row.backward, 0.005 * row.backward);
}

INSTANTIATE_TEST_SUITE_P(
    Genuine, MeshMemory,
    testing::Values(
        MeshRow{"alone", {}, true, 35025196032, 38466699264},
        MeshRow{"tensor_2", tensor(2, false, false), true, 21271024640, 21271024640},
        MeshRow{"tensor_4_sequence", tensor(4, true, false), true, 13942940672, 13942940672},
        MeshRow{"tensor_2_sequence_split_loss", tensor(2, true, true), true, 18867750400, 0},
        MeshRow{"small_tensor_4_sequence_split_loss", tensor(4, true, true), false, 2262567936,
                2262567936}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace lockstep::mesh_memory_test
