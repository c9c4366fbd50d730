// Which weights are the matrices of hidden layers that Muon updates?
#include "workload/hidden_matrices.hpp"

#include <numeric>

#include "build.hpp"

namespace lockstep::hidden_matrices_test {
namespace {

using Shape = std::pair<std::int64_t, std::int64_t>;

std::vector<HiddenMatrix> matrices_of(const std::string& model) {
  return hidden_matrices(build_step(*load_model(model), {}));
}

std::vector<Shape> shapes(const std::vector<HiddenMatrix>& matrices, std::size_t most = 100) {
  std::vector<Shape> list;
  for (const HiddenMatrix& matrix : matrices) {
    if (list.size() < most) list.push_back({matrix.rows, matrix.columns});
  }
  return list;
}

double elements(const std::vector<HiddenMatrix>& matrices) {
  return std::accumulate(matrices.begin(), matrices.end(), 0.0,
                         [](double sum, const HiddenMatrix& m) { return sum + m.elements(); });
}

TEST(HiddenMatrices, OfGptAreFourInEachBlock) {
  const auto matrices = matrices_of("gpt2");
  ASSERT_EQ(matrices.size(), 12u * 4);
  const std::vector<Shape> block{{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};
  EXPECT_EQ(shapes(matrices, 4), block);
  // Before the first matrix there are two embeddings, a norm's weight and bias; a bias follows each
  // matrix.
  EXPECT_EQ(matrices[0].tensor, 4);
  EXPECT_EQ(matrices[1].tensor, 6);
  EXPECT_EQ(matrices[2].tensor, 10);
  EXPECT_EQ(matrices[4].tensor, 4 + 12);
}

TEST(HiddenMatrices, LogitsAreMadeByNone) {
  // Llama's head is a matrix of its own with as many rows as the vocabulary; it must not count.
  const auto matrices = matrices_of("llama3.2-1b");
  ASSERT_EQ(matrices.size(), 16u * 7);
  for (const auto& [rows, columns] : shapes(matrices)) EXPECT_LT(rows, 100'000);
  // The last linear layer of a vision transformer or residual network must not count, nor the
  // filters of convolutions.
  EXPECT_EQ(matrices_of("vit_b_16").size(), 12u * 4);
  EXPECT_TRUE(matrices_of("resnet50").empty());
  EXPECT_EQ(shapes(matrices_of("lenet5")), (std::vector<Shape>{{120, 400}, {84, 120}}));
}

TEST(HiddenMatrices, ExpertsAreAndTablesOfPositionsAreNot) {
  const auto mixtral = matrices_of("mixtral-8x7b");
  EXPECT_EQ(mixtral.size(), 32u * (4 + 1 + 8 * 3));
  const double attention = 2 * 4096 * 4096 + 2 * 1024 * 4096, router = 8 * 4096;
  EXPECT_EQ(elements(mixtral), 32 * (attention + router + 8 * 3 * 14336.0 * 4096));
  // T5's relative positions are an embedding with two dimensions.
  for (const auto& [rows, columns] : shapes(matrices_of("t5-small"), 1000)) EXPECT_GE(rows, 512);
}

TEST(HiddenMatrices, AreFoundBehindWhatHasNoParameters) {
  const auto of = [](const std::string& layers) {
    return shapes(hidden_matrices(build_layers(layers)));
  };
  EXPECT_EQ(of("  - flatten:\n  - linear: {out: 7}\n  - relu:\n  - linear: {out: 10}\n"
               "  - dropout: 0.1\n  - cross_entropy:\n"),
            (std::vector<Shape>{{7, 3072}}));
}

}  // namespace
}  // namespace lockstep::hidden_matrices_test
