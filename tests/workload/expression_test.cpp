// Do integer expressions have their usual meaning, and are invalid ones refused?
#include "workload/expression.hpp"

#include <gtest/gtest.h>

#include "workload/model_error.hpp"

namespace lockstep::expression_test {
namespace {

std::int64_t value(const std::string& text) {
  Scope scope;
  scope.set("width", 96);
  scope.set("i", 0);
  return Expression::parse(text).evaluate(scope);
}

TEST(Expressions, FollowTheUsualPrecedence) {
  EXPECT_EQ(value("1 + 2 * 3"), 7);
  EXPECT_EQ(value("(1 + 2) * 3"), 9);
  EXPECT_EQ(value("10 - 4 - 3"), 3);
  EXPECT_EQ(value("-2 * -3"), 6);
  EXPECT_EQ(value("4 * width"), 384);
  EXPECT_EQ(value("1 + 1 == 2 and not 0"), 1);
  EXPECT_EQ(value("0 and 1 or 1"), 1);
}

TEST(Expressions, DivideExactlyDownOrUp) {
  EXPECT_EQ(value("width / 3"), 32);
  EXPECT_EQ(value("7 // 2"), 3);
  EXPECT_EQ(value("-7 // 2"), -4);
  EXPECT_EQ(value("-7 % 2"), 1);
  EXPECT_EQ(value("ceil_div(7, 2)"), 4);
  EXPECT_EQ(value("ceil_div(8, 2)"), 4);
  EXPECT_THROW(value("7 / 2"), ModelError);
  EXPECT_THROW(value("7 // 0"), ModelError);
  EXPECT_THROW(value("7 % 0"), ModelError);
}

TEST(Expressions, ChooseAndRound) {
  EXPECT_EQ(value("if(i == 0, 2, 1)"), 2);
  EXPECT_EQ(value("if(i != 0, 1 // 0, 5)"), 5) << "the other branch is not evaluated";
  EXPECT_EQ(value("min(3, max(1, 2))"), 2);
  // torchvision's MobileNetV3 squeezes 72 // 4 = 18 channels to 24, because 16 would be more than
  // 10 % less.
  EXPECT_EQ(value("make_divisible(18, 8)"), 24);
  EXPECT_EQ(value("make_divisible(30, 8)"), 32);
}

TEST(Expressions, RefuseWhatTheyCannotMean) {
  for (const char* text : {"", "1 +", "(1", "1)", "2 ** 3", "1.5", "max(1)", "foo(1, 2)", "unknown",
                           "1 2", "a b", "99999999999999999999", "if(1, 2)"}) {
    EXPECT_THROW(value(text), ModelError) << text;
  }
  EXPECT_THROW(value(std::string(200, '(') + "1" + std::string(200, ')')), ModelError);
  EXPECT_THROW(value(std::string(2000, '1')), ModelError);
}

TEST(Expressions, NeverWrapAround) {
  EXPECT_THROW(value("9223372036854775807 + 1"), ModelError);
  EXPECT_THROW(value("-9223372036854775807 - 2"), ModelError);
  EXPECT_THROW(value("4294967296 * 4294967296"), ModelError);
  EXPECT_THROW(value("(-9223372036854775807 - 1) // -1"), ModelError);
}

}  // namespace
}  // namespace lockstep::expression_test
