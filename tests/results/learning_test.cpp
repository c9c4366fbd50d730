// The summary of several learning curves: the reached value, the time at which they reach a target,
// and its certainty.
#include "results/learning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "results/json_fields.hpp"
#include "results/tables.hpp"

namespace lockstep::learning_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A straight learning curve from 0 at 0 s to `last` at `seconds`, so that half of `last` is reached
// after half of the time.
AccuracyCurve line(double seconds, double last = 1) {
  return {{0, 0, 0, 0, 2}, {seconds, 1, 100, last, 1}};
}

Accuracy of_seeds(const std::vector<AccuracyCurve>& curves, double dollars_per_second = 0.25) {
  return accuracy_of(curves, 0, 0.5, dollars_per_second);
}

ResultRecord record_of(const std::vector<Accuracy>& points) {
  ResultRecord record;
  for (const Accuracy& accuracy : points) {
    Prediction& p = record.predictions.emplace_back();
    p.strategy = "s" + std::to_string(record.predictions.size());
    p.accuracy = accuracy;
  }
  return record;
}

// The targets are reached at 1, 2 and 3 s: mean 2, standard deviation 1, and Student's t with two
// degrees of freedom is 2.91999.
TEST(Target, HasStudentsIntervalInSecondsAndInDollars) {
  const Accuracy a = of_seeds({line(2), line(4), line(6)});
  const double half = 2.919985580353725 / std::sqrt(3.0);
  EXPECT_EQ(a.reached, 3);
  EXPECT_DOUBLE_EQ(a.seconds_to_target, 2);
  ASSERT_TRUE(a.seconds_interval && a.dollars_interval);
  EXPECT_NEAR(a.seconds_interval->low, 2 - half, 1e-12);
  EXPECT_NEAR(a.seconds_interval->high, 2 + half, 1e-12);
  EXPECT_DOUBLE_EQ(a.dollars_to_target, 0.5);
  EXPECT_NEAR(a.dollars_interval->low, 0.25 * (2 - half), 1e-12);
  EXPECT_NEAR(a.dollars_interval->high, 0.25 * (2 + half), 1e-12);
}

TEST(Target, HasNoIntervalWhereSomeSeedsMissIt) {
  const Accuracy a = of_seeds({line(2), line(4), line(6, 0.4)});
  EXPECT_EQ(a.reached, 2);
  EXPECT_DOUBLE_EQ(a.seconds_to_target, 1.5);
  EXPECT_FALSE(a.seconds_interval || a.dollars_interval);
  const auto json = json_of(a);
  EXPECT_EQ(json.at("seconds_to_target"), 1.5);
  EXPECT_FALSE(json.contains("seconds_to_target_interval"));
  EXPECT_THAT(accuracy_table(record_of({a})).rows().front(),
              ElementsAre("s1", "1", "80.0 %", testing::_, "0", "0", "50.0 %", "2 of 3", "1.50 s",
                          "-", "$0.38", "-"));
}

// If the first evaluation is beyond the target, the time is only bounded.
TEST(Target, ThatIsReachedBeforeTheFirstEvaluationHasABound) {
  AccuracyCurve late = line(4);
  late.erase(late.begin());
  const Accuracy a = of_seeds({late, line(4)});
  EXPECT_EQ(a.reached, 2);
  EXPECT_EQ(a.reached_before, 1);
  EXPECT_DOUBLE_EQ(a.seconds_to_target, 3);  // the mean of 4 s and 2 s
  EXPECT_FALSE(a.seconds_interval || a.dollars_interval);
  EXPECT_THAT(accuracy_table(record_of({a})).rows().front(),
              testing::IsSupersetOf({"2 of 2", "<= 3.00 s", "<= $0.75"}));
  EXPECT_THAT(target_sentence(record_of({a})), HasSubstr("first, after at most 3.00 s"));
}

TEST(Target, ThatNobodyReachesHasNoTime) {
  const auto json = json_of(of_seeds({line(2, 0.4), line(4, 0.3)}));
  EXPECT_EQ(json.at("reached"), 0);
  EXPECT_FALSE(json.contains("seconds_to_target"));
  EXPECT_FALSE(json.contains("dollars_to_target"));
}

TEST(Target, WithoutAPriceHasNoIntervalInDollars) {
  const Accuracy a = of_seeds({line(2), line(4)}, 0);
  EXPECT_TRUE(a.seconds_interval);
  EXPECT_FALSE(a.dollars_interval);
}

TEST(Target, IsSaidWithItsInterval) {
  const Accuracy slow = of_seeds({line(20), line(24)}, 0.001),
                 fast = of_seeds({line(4), line(4.4)});
  const std::string sentence = target_sentence(record_of({slow, fast}));
  EXPECT_EQ(sentence,
            "s2 on 1 GPU reaches 50.0 % first, after 2.10 s (1.47 s .. 2.73 s); the cheapest is "
            "s1 on 1 GPU, at $0.0110 ($0.00469 .. $0.0173).");
  EXPECT_EQ(
      target_sentence(record_of({of_seeds({line(4)})})),
      "s1 on 1 GPU reaches 50.0 % first, after 2.00 s with one seed; the cheapest is the same, "
      "at $0.50 with one seed.");
  EXPECT_THAT(accuracy_table(record_of({of_seeds({line(4)})})).rows().front(),
              ElementsAre("s1", "1", "100.0 %", "-", "0", "0", "50.0 %", "1 of 1", "2.00 s", "-",
                          "$0.50", "-"));
  EXPECT_EQ(target_sentence(record_of({of_seeds({line(4, 0.4)})})),
            "No point reaches 50.0 % with every seed.");
}

// With two seeds a mean lies within tan(0.45 pi) times half of their distance: 2 +- 0.63, 2.4 +-
// 0.63 and 4 +- 0.63 s; in dollars one third, one half and once as much.
TEST(Target, SaysWhomTheIntervalsDoNotTellFromTheFirst) {
  const auto pair = [](double centre, double dollars_per_second) {
    return of_seeds({line(2 * centre - 0.2), line(2 * centre + 0.2)}, dollars_per_second);
  };
  ResultRecord record = record_of({pair(4, 0.001), pair(2.4, 0.5), pair(2, 0.3)});
  const auto first = least_to_target(record.predictions, seconds_to_target);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->best, 2u);
  EXPECT_THAT(first->as_good, ElementsAre(1u));
  const auto cheapest = least_to_target(record.predictions, dollars_to_target);
  ASSERT_TRUE(cheapest);
  EXPECT_EQ(cheapest->best, 0u);
  EXPECT_THAT(cheapest->as_good, ElementsAre());
  EXPECT_EQ(
      target_sentence(record),
      "s3 on 1 GPU reaches 50.0 % first, after 2.00 s (1.37 s .. 2.63 s) (may be as good, for "
      "the intervals overlap: s2 on 1 GPU); the cheapest is s1 on 1 GPU, at $0.00400 "
      "($0.00337 .. $0.00463).");
}

// Intervals that touch overlap; with a tiny gap they do not.
TEST(Target, IsTiedWhereIntervalsTouch) {
  Accuracy a = of_seeds({line(4), line(4.4)}), b = of_seeds({line(8), line(8.4)});
  a.seconds_interval->high = b.seconds_interval->low;
  const auto as_good = [&] {
    return least_to_target(record_of({a, b}).predictions, seconds_to_target)->as_good;
  };
  EXPECT_THAT(as_good(), ElementsAre(1u));
  a.seconds_interval->high -= 1e-9;
  EXPECT_THAT(as_good(), ElementsAre());
}

// A time of "at most 4 s" may be earlier than 2.1 +- 0.6 s, so the two are tied. A point that is
// first by its bound is before all points that begin later.
TEST(Target, OfABoundMayBeAnyEarlier) {
  AccuracyCurve at_once = line(4);
  at_once.erase(at_once.begin());
  const Accuracy bound = of_seeds({at_once, at_once}), early = of_seeds({line(4), line(4.4)}),
                 late = of_seeds({line(40), line(44)});
  const auto of = [](const std::vector<Accuracy>& points) {
    return *least_to_target(record_of(points).predictions, seconds_to_target);
  };
  EXPECT_EQ(of({early, bound}).best, 0u);
  EXPECT_THAT(of({early, bound}).as_good, ElementsAre(1u));
  EXPECT_EQ(of({bound, late}).best, 0u);
  EXPECT_THAT(of({bound, late}).as_good, ElementsAre());
}

// A point has no rank if some of its seeds miss the target; without a price it has none in dollars.
TEST(Target, HasNoFirstOfThoseThatMissIt) {
  const Accuracy some = of_seeds({line(2), line(2, 0.4)}), all = of_seeds({line(40), line(44)}, 0);
  const ResultRecord record = record_of({some, all});
  EXPECT_EQ(least_to_target(record.predictions, seconds_to_target)->best, 1u);
  EXPECT_THAT(least_to_target(record.predictions, seconds_to_target)->as_good, ElementsAre());
  EXPECT_FALSE(least_to_target(record.predictions, dollars_to_target));
  EXPECT_FALSE(least_to_target(record_of({some}).predictions, seconds_to_target));
  EXPECT_EQ(target_sentence(record),
            "s2 on 1 GPU reaches 50.0 % first, after 21.0 s (14.7 s .. 27.3 s).");
}

// The values come from the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, column 0.95.
TEST(Student, IsTheTablesForOneToAThousandDegrees) {
  const std::vector<std::pair<int, double>> table{
      {1, 6.314},  {2, 2.920},  {3, 2.353},  {4, 2.132},  {5, 2.015},  {6, 1.943},  {7, 1.895},
      {8, 1.860},  {9, 1.833},  {10, 1.812}, {11, 1.796}, {12, 1.782}, {13, 1.771}, {14, 1.761},
      {15, 1.753}, {16, 1.746}, {17, 1.740}, {18, 1.734}, {19, 1.729}, {20, 1.725}, {25, 1.708},
      {30, 1.697}, {40, 1.684}, {50, 1.676}, {60, 1.671}, {80, 1.664}, {99, 1.660}, {100, 1.660}};
  for (const auto& [degrees, t] : table) EXPECT_NEAR(student_t95(degrees), t, 5.001e-4) << degrees;
  EXPECT_EQ(student_t95(0), 0);
}

// One and two degrees of freedom have closed forms; many degrees have Fisher's expansion
// (Abramowitz and Stegun, 26.7.5).
TEST(Student, IsExact) {
  EXPECT_NEAR(student_t95(1), std::tan(0.45 * std::acos(-1.0)), 1e-12);
  EXPECT_NEAR(student_t95(2), 0.9 * std::sqrt(2 / (1 - 0.81)), 1e-12);
  constexpr double z = 1.6448536269514722, z2 = z * z;
  for (const double n : {200.0, 999.0, 1000.0}) {
    const double fisher =
        z * (1 + (z2 + 1) / (4 * n) + (5 * z2 * z2 + 16 * z2 + 3) / (96 * n * n) +
             (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / (384 * n * n * n));
    EXPECT_NEAR(student_t95(static_cast<int>(n)), fisher, 1e-9) << n;
  }
}

}  // namespace
}  // namespace lockstep::learning_test
