// Does Muon of real training orthogonalize its updates, and which parameters does it leave to
// AdamW?
#include "torch/optimizer.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "workload/model.hpp"

namespace lockstep::optimizer_test {
namespace {

TEST(Muon, SingularValuesAreNearOne) {
  at::manual_seed(1);
  for (const auto& [rows, columns] : {std::pair{64, 64}, std::pair{96, 32}, std::pair{32, 96}}) {
    const at::Tensor matrix = 1e-3 * at::randn({rows, columns});
    const at::Tensor result = orthogonalised(matrix).to(at::kFloat);
    ASSERT_EQ(result.sizes(), matrix.sizes());
    const at::Tensor values = std::get<1>(at::linalg_svd(result, false));
    // A square matrix has singular values near 0, which five iterations do not raise to 1.
    const double least = rows == columns ? 0.2 : 0.6;
    EXPECT_GT(values.min().item<double>(), least) << rows << " x " << columns;
    EXPECT_LT(values.max().item<double>(), 1.25) << rows << " x " << columns;
    EXPECT_NEAR(values.median().item<double>(), 0.95, 0.25);
    // The singular vectors are kept: U^T O V is a diagonal of the new singular values.
    const auto [u, s, vh] = at::linalg_svd(matrix, false);
    const at::Tensor rotated = u.t().mm(result).mm(vh.t());
    EXPECT_LT((rotated - at::diag(rotated.diag())).abs().max().item<double>(), 0.05);
    EXPECT_GT(rotated.diag().min().item<double>(), 0);
  }
  EXPECT_EQ(orthogonalised(at::zeros({4, 8})).abs().max().item<double>(), 0);
}

// Two steps by hand: momentum, Nesterov's look-ahead, weight decay, and a step with AdamW's size.
TEST(Muon, StepIsTorchsWithAdamWsSize) {
  at::manual_seed(2);
  at::Tensor matrix = at::randn({8, 24}), vector = at::randn({8});
  at::Tensor of_adamw = vector.clone();
  at::Tensor expected = matrix.clone(), momentum = at::zeros({8, 24});
  OptimizerSpec spec;
  spec.name = OptimizerKind::muon;
  spec.learning_rate = 0.01;
  spec.weight_decay = 0.1;
  spec.matrices = {{1, 8, 24}};
  Optimizer optimizer(spec, {vector, matrix});
  OptimizerSpec adamw = spec;
  adamw.name = OptimizerKind::adamw;
  adamw.matrices.clear();
  Optimizer other(adamw, {of_adamw});
  for (int step = 0; step < 2; ++step) {
    const at::Tensor gradient = at::randn({8, 24}), small = at::randn({8});
    matrix.mutable_grad() = gradient;
    vector.mutable_grad() = small;
    of_adamw.mutable_grad() = small;
    momentum = 0.95 * momentum + 0.05 * gradient;
    const at::Tensor update = orthogonalised(0.05 * gradient + 0.95 * momentum).to(at::kFloat);
    expected = expected * (1 - 0.01 * 0.1) - 0.01 * 0.2 * std::sqrt(24.0) * update;
    optimizer.step();
    other.step();
  }
  EXPECT_LT((matrix - expected).abs().max().item<double>(), 1e-4);
  EXPECT_TRUE(at::equal(vector, of_adamw));
  // The matrix has one momentum, the vector two moments.
  ASSERT_EQ(optimizer.state().size(), 3u);
}

TEST(Muon, LearnsWithTheSimulatorsMatrices) {
  StepOptions options;
  options.samples = 8;
  const TrainingStep step = build_step(*load_model("lenet5"), options);
  RealNetwork network(step, at::kCPU, 1);
  const Batch batch = random_batch(step, at::kCPU, 1);
  OptimizerSpec spec;
  spec.name = OptimizerKind::muon;
  spec.learning_rate = 5e-3;
  Optimizer optimizer(spec, network);
  std::vector<double> losses;
  for (int i = 0; i < 20; ++i) {
    at::Tensor loss = network.forward(batch);
    loss.backward();
    losses.push_back(loss.item<double>());
    optimizer.step();
    network.drop_gradients();
  }
  EXPECT_LT(losses.back(), 0.7 * losses.front());
  double state = 0;
  for (const at::Tensor& tensor : optimizer.state()) state += static_cast<double>(tensor.nbytes());
  const double elements = static_cast<double>(step.parameter_count);
  EXPECT_NEAR(state, elements * optimizer_state_bytes(for_model(spec, step), Precision::fp32), 1);
}

}  // namespace
}  // namespace lockstep::optimizer_test
