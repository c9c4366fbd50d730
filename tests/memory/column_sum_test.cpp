// Is the scratch of columns' sums what PyTorch 2.15 takes on an A100? Figures of
// torch.cuda.max_memory_allocated() under calibrate/oracle/gpu, less the result and 512 B of counters.
#include "memory/column_sum.hpp"

#include <gtest/gtest.h>

#include "memory/step_memory.hpp"
#include "networks.hpp"

namespace lockstep::column_sum_test {
namespace {

Device a100() {
  Device device = bare_gpu();
  device.multiprocessors = 108;
  device.compute_capability = 80;
  return device;
}

struct Sum {
  std::int64_t rows, columns;
  double bytes;
};

TEST(ColumnSum, TakesWhatPyTorchTakes) {
  const Sum sums[] = {
      {2167, 3072, 53'477'376}, {1023, 768, 6'291'456},     {1024, 768, 6'291'456},
      {4096, 768, 25'165'824},  {8192, 4096, 113'246'208},  {50000, 96, 9'609'216},
      {3000, 1000, 24'064'000}, {5000, 1001, 1'793'792},    {5000, 1002, 10'260'480},
      {2048, 50257, 0},         {65536, 2304, 113'246'208}, {333, 64, 0},
      {20000, 30, 76'800}};
  for (const Sum& sum : sums) {
    EXPECT_NEAR(column_sum_scratch(sum.rows, sum.columns, a100()), sum.bytes, 256)
        << sum.rows << " x " << sum.columns;
  }
  EXPECT_EQ(column_sum_scratch(0, 0, a100()), 0);
}

TEST(ColumnSum, IsThereWithTheGradientOfABias) {
  TrainingStep step = chain(1, 16 * mib, 12 * 1024 * 1024);
  step.layers[0].summed_rows = 4096;
  step.layers[0].summed_columns = 768;
  // Weights and their gradient of 48 MiB each, the input, and the partial sums.
  EXPECT_EQ(step_memory(step, {}, a100()).allocated, (2 * 48 + 16 + 24) * mib);
  Device host = a100();
  host.compute_capability = 0;
  host.architecture = Architecture::cpu;
  const double on_host = step_memory(step, {}, host).allocated;
  step.layers[0].summed_rows = step.layers[0].summed_columns = 0;
  EXPECT_EQ(step_memory(step, {}, host).allocated, on_host);
}

}  // namespace
}  // namespace lockstep::column_sum_test
