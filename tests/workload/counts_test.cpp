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

}  // namespace
}  // namespace lockstep::counts_test
