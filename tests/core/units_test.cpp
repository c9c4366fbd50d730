// Are quantities read and written exactly, and mistakes in them named?
#include "core/units.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep::units_test {
namespace {

using testing::HasSubstr;

const std::vector<Dimension> all_dimensions{Dimension::none,
                                            Dimension::count,
                                            Dimension::bytes,
                                            Dimension::seconds,
                                            Dimension::bytes_per_second,
                                            Dimension::flops_per_second,
                                            Dimension::hertz,
                                            Dimension::fraction,
                                            Dimension::dollars,
                                            Dimension::dollars_per_hour};

TEST(Units, ValuesAreTheBaseUnits) {
  const std::vector<std::tuple<const char*, Dimension, double>> cases{
      {"80 GiB", Dimension::bytes, 80 * 1073741824.0},
      {"80GiB", Dimension::bytes, 80 * 1073741824.0},
      {"25 MB", Dimension::bytes, 25e6},
      {"0 B", Dimension::bytes, 0},
      {"2039 GB/s", Dimension::bytes_per_second, 2039e9},
      {"1 GiB/s", Dimension::bytes_per_second, 1073741824.0},
      {"100 Gbit/s", Dimension::bytes_per_second, 12.5e9},
      {"1 kbit/s", Dimension::bytes_per_second, 125},
      {"3.4 us", Dimension::seconds, 3.4e-6},
      {"250 ns", Dimension::seconds, 2.5e-7},
      {"2 min", Dimension::seconds, 120},
      {"1.5 h", Dimension::seconds, 5400},
      {"1 d", Dimension::seconds, 86400},
      {"312 TFLOP/s", Dimension::flops_per_second, 312e12},
      {"1410 MHz", Dimension::hertz, 1.41e9},
      {"2%", Dimension::fraction, 0.02},
      {"2 %", Dimension::fraction, 0.02},
      {"0.02", Dimension::fraction, 0.02},
      {"125M", Dimension::count, 125e6},
      {"7 B", Dimension::count, 7e9},
      {"7G", Dimension::count, 7e9},
      {"50000", Dimension::count, 50000},
      {"1e3", Dimension::none, 1000},
      {"-2.5", Dimension::none, -2.5},
      {"+2.5", Dimension::none, 2.5},
      {".5", Dimension::none, 0.5},
      {"  5  ", Dimension::none, 5},
      {"32.77 USD/h", Dimension::dollars_per_hour, 32.77},
      {"120 USD", Dimension::dollars, 120},
  };
  for (const auto& [text, dimension, value] : cases) {
    EXPECT_EQ(parse_quantity(text, dimension), value) << text;
  }
}

TEST(Units, MistakesAreNamed) {
  const std::vector<std::tuple<const char*, Dimension, const char*>> cases{
      {"80", Dimension::bytes, "'80' needs a unit, for example 80 GiB"},
      {"0", Dimension::seconds, "needs a unit"},
      {"4.1", Dimension::dollars_per_hour, "allowed units: USD/h"},
      {"80 GIB", Dimension::bytes, "did you mean 'GiB'?"},
      {"100 gb/s", Dimension::bytes_per_second, "did you mean 'GB/s'?"},
      {"3 us", Dimension::bytes, "unknown unit 'us'"},
      {"3 us", Dimension::none, "a plain number is expected"},
      {"0x10", Dimension::none, "unknown unit 'x10'"},
      {"1_000", Dimension::count, "unknown unit '_000'"},
      {"1,000", Dimension::count, "unknown unit ',000'"},
      {"", Dimension::seconds, "'' is not a time"},
      {"fast", Dimension::seconds, "'fast' is not a time, write for example 3.4 us"},
      {"nan", Dimension::none, "is not a number"},
      {".nan", Dimension::none, "is not a number"},
      {".inf", Dimension::none, "is not a number"},
      {"inf s", Dimension::seconds, "is not a time"},
      {"-inf", Dimension::none, "is not a number"},
      {"+-5", Dimension::none, "is not a number"},
      {"++5", Dimension::none, "is not a number"},
      {"1e999", Dimension::none, "too large or too small"},
      {"1e308 TB", Dimension::bytes, "too large"},
      {"1 2", Dimension::none, "unknown unit '2'"},
      {"5 GB GB", Dimension::bytes, "unknown unit 'GB GB'"},
  };
  for (const auto& [text, dimension, part] : cases) {
    try {
      const double value = parse_quantity(text, dimension);
      ADD_FAILURE() << text << " was read as " << value;
    } catch (const UnitError& error) {
      EXPECT_THAT(error.what(), HasSubstr(part)) << text;
    }
  }
}

TEST(Units, WritesTheShortestText) {
  EXPECT_EQ(quantity_text(25.0 * 1048576, Dimension::bytes), "25 MiB");
  EXPECT_EQ(quantity_text(1e9, Dimension::bytes), "1 GB");
  EXPECT_EQ(quantity_text(0, Dimension::bytes), "0 B");
  EXPECT_EQ(quantity_text(1e-6, Dimension::seconds), "1 us");
  EXPECT_EQ(quantity_text(2039e9, Dimension::bytes_per_second), "2039 GB/s");
  EXPECT_EQ(quantity_text(125e6, Dimension::count), "125M");
  EXPECT_EQ(quantity_text(0.02, Dimension::fraction), "2%");
  EXPECT_EQ(quantity_text(-0.5, Dimension::none), "-0.5");
}

RC_GTEST_PROP(Units, EveryDoubleSurvivesWritingAndReading, ()) {
  const auto value = std::bit_cast<double>(
      *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
  RC_PRE(std::isfinite(value));
  for (const Dimension dimension : all_dimensions) {
    RC_ASSERT(parse_quantity(quantity_text(value, dimension), dimension) == value);
  }
}

RC_GTEST_PROP(Units, RoundFiguresSurviveToo, ()) {
  const int mantissa = *rc::gen::inRange(-100000, 100000);
  const int exponent = *rc::gen::inRange(-12, 16);
  const double value = mantissa * std::pow(10.0, exponent);
  for (const Dimension dimension : all_dimensions) {
    const std::string text = quantity_text(value, dimension);
    RC_ASSERT(parse_quantity(text, dimension) == value);
    RC_ASSERT(std::regex_match(text, std::regex(dimension_pattern(dimension))));
  }
}

TEST(Units, TheSmallestAndLargestDoublesSurviveToo) {
  for (const double value : {5e-324, 2.2250738585072014e-308, 1.7976931348623157e308}) {
    for (const Dimension dimension : all_dimensions) {
      EXPECT_EQ(parse_quantity(quantity_text(value, dimension), dimension), value);
    }
  }
}

TEST(Units, ForPeople) {
  EXPECT_EQ(human(1.2345e-3, Dimension::seconds), "1.23 ms");
  EXPECT_EQ(human(90, Dimension::seconds), "90.0 s");
  EXPECT_EQ(human(4.5e9, Dimension::bytes_per_second), "4.50 GB/s");
  EXPECT_EQ(human(80 * 1073741824.0, Dimension::bytes), "80.0 GiB");
  EXPECT_EQ(human(0.123, Dimension::fraction), "12.3 %");
  EXPECT_EQ(human(1234.5, Dimension::dollars), "$1234.50");
  EXPECT_EQ(human(0.1, Dimension::dollars), "$0.10");
  EXPECT_EQ(human(0.0225, Dimension::dollars), "$0.0225");
  EXPECT_EQ(human(2.1149e-4, Dimension::dollars), "$0.000211");
  EXPECT_EQ(human(-0.05, Dimension::dollars), "-$0.0500");
  EXPECT_EQ(human(138357544, Dimension::count), "138 M");
  EXPECT_EQ(human(0, Dimension::seconds), "0");
}

RC_GTEST_PROP(Units, ForPeopleKeepsThreeDigits, ()) {
  const double value = std::exp(*rc::gen::inRange(-20, 20) + *rc::gen::inRange(0, 100) / 100.0);
  const std::string text = human(value, Dimension::seconds);
  const auto space = text.find(' ');
  const double back = parse_quantity(text, Dimension::seconds);
  RC_ASSERT(std::abs(back - value) <= 0.006 * value + 5e-12);
  RC_ASSERT(space != std::string::npos);
}

}  // namespace
}  // namespace lockstep::units_test
