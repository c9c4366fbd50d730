// Is the same table aligned as text, quoted as CSV and escaped as Markdown?
#include "results/table.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "results/cells.hpp"

namespace lockstep::table_test {
namespace {

Table sample() {
  Table table({{"name", Table::Align::left}, {"µs"}});
  table.add_row({"a|b", "1"});
  table.add_row({"ü, \"x\"", "20.5"});
  return table;
}

TEST(Table, TextAlignsByCharactersNotBytes) {
  EXPECT_EQ(sample().text(),
            "name      µs\n"
            "a|b        1\n"
            "ü, \"x\"  20.5\n");
}
TEST(Table, CsvQuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(sample().csv(), "name,µs\na|b,1\n\"ü, \"\"x\"\"\",20.5\n");
}
TEST(Table, MarkdownEscapesBars) {
  EXPECT_EQ(sample().markdown(),
            "| name | µs |\n| --- | ---: |\n| a\\|b | 1 |\n| ü, \"x\" | 20.5 |\n");
}
TEST(Table, ALineBreakInACellBreaksNoTable) {
  Table table({{"a", Table::Align::left}, {"b"}});
  table.add_row({"x\ny", "1"});
  EXPECT_EQ(table.text(), "a    b\nx y  1\n");
  EXPECT_EQ(table.csv(), "a,b\n\"x\ny\",1\n");
  EXPECT_EQ(table.markdown(), "| a | b |\n| --- | ---: |\n| x y | 1 |\n");
}
TEST(Table, ARowOfTheWrongLengthIsAProgrammersMistake) {
  Table table({{"a"}});
  EXPECT_THROW(table.add_row({"1", "2"}), std::logic_error);
}

// A run of many GPUs uses thousands of MWh: no exponent appears at either end of a unit.
TEST(Cells, EnergyAndCarbonHaveNoExponent) {
  EXPECT_EQ(energy_text(12.345), "12.3 kWh");
  EXPECT_EQ(energy_text(999.6), "1,000 kWh");
  EXPECT_EQ(energy_text(27'500), "27.5 MWh");
  EXPECT_EQ(energy_text(1'234'567), "1,235 MWh");
  EXPECT_EQ(carbon_text(999.6), "1,000 kg");
  EXPECT_EQ(carbon_text(4'321'000), "4,321 t");
}

}  // namespace
}  // namespace lockstep::table_test
