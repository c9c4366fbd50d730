// Do the shipped models have exactly the published parameters, and the published work within 1 %?
#include <gtest/gtest.h>

#include "workload/model.hpp"

namespace lockstep::counts_test {
namespace {

class PublishedFigures : public testing::TestWithParam<std::string> {};

TEST_P(PublishedFigures, MatchTheModel) {
  const ModelSummary summary = summarise(*load_model(GetParam()));
  EXPECT_GT(summary.parameters, 0);
  if (summary.published_parameters) {
    EXPECT_EQ(summary.parameters, *summary.published_parameters);
    EXPECT_FALSE(summary.source.empty());
  }
  if (summary.published_multiply_accumulates) {
    EXPECT_NEAR(summary.multiply_accumulates / *summary.published_multiply_accumulates, 1, 0.01);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryModel, PublishedFigures, testing::ValuesIn(known_models()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

// Fields of a DeepSeek config.json.
struct DeepSeek {
  std::int64_t layers, hidden, intermediate, moe_intermediate, heads, experts, shared, q_rank,
      vocabulary;
};

std::int64_t parameters_of(const DeepSeek& c) {
  const std::int64_t latent = 512, nope = 128, rope = 64, value = 128, dense_layers = 1;
  const std::int64_t queries = c.heads * (nope + rope);
  std::int64_t attention =
      c.q_rank > 0 ? c.hidden * c.q_rank + c.q_rank + c.q_rank * queries : c.hidden * queries;
  attention += c.hidden * (latent + rope) + latent + latent * c.heads * (nope + value) +
               c.heads * value * c.hidden;
  const std::int64_t mixture =
      c.experts * c.hidden + (c.experts + c.shared) * 3 * c.hidden * c.moe_intermediate;
  return c.layers * (attention + 2 * c.hidden) + dense_layers * 3 * c.hidden * c.intermediate +
         (c.layers - dense_layers) * mixture + 2 * c.vocabulary * c.hidden + c.hidden;
}

TEST(CountsOfConfigs, AreThoseOfTheModelFiles) {
  const auto count = [](const char* model) { return summarise(*load_model(model)).parameters; };
  EXPECT_EQ(count("deepseek-v2"),
            parameters_of({60, 5120, 12288, 1536, 128, 160, 2, 1536, 102400}));
  EXPECT_EQ(count("deepseek-v2-lite"),
            parameters_of({27, 2048, 10944, 1408, 16, 64, 2, 0, 102400}));
  // Llama 4 Scout has 48 layers, hidden size 5120, 40 heads of 128 with 8 for keys and values, 16
  // experts of 8192 and a shared one, a vocabulary of 202048, and an untied head.
  const std::int64_t hidden = 5120, attention = 2 * hidden * 40 * 128 + 2 * hidden * 8 * 128;
  EXPECT_EQ(count("llama4-scout"),
            48 * (attention + 16 * hidden + 17 * 3 * hidden * 8192 + 2 * hidden) +
                2 * 202048 * hidden + hidden);
}

}  // namespace
}  // namespace lockstep::counts_test
