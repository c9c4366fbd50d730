// Do lines fit a terminal, and are equal sentences printed once for all their points?
#include "results/sentences.hpp"

#include <gmock/gmock.h>

#include <sstream>

#include "results/render.hpp"
#include "results/table.hpp"
#include "results/tables.hpp"
#include "sample_record.hpp"

namespace lockstep::sentences_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) list.push_back(line);
  return list;
}

TEST(Wrapped, LinesEndBeforeTheTerminalDoes) {
  EXPECT_EQ(wrapped("short"), "short");
  EXPECT_EQ(wrapped(""), "");
  const std::string word(39, 'x');
  EXPECT_EQ(wrapped(word + " " + word + "x"), word + " " + word + "x");  // 80 columns
  EXPECT_EQ(wrapped(word + " " + word + "xx"), word + "\n  " + word + "xx");
  EXPECT_EQ(wrapped("a " + std::string(90, 'y') + " b"), "a\n  " + std::string(90, 'y') + "\n  b");
  EXPECT_EQ(wrapped("  " + word + " " + word, 4), "  " + word + "\n      " + word);
  // A column is a character, not a byte.
  std::string umlauts;
  for (int i = 0; i < 39; ++i) umlauts += "\u00e4";
  EXPECT_EQ(wrapped(umlauts + " " + umlauts + "x"), umlauts + " " + umlauts + "x");
}

TEST(Wrapped, AFigureKeepsItsUnitAndWhatHasAColourStaysTogether) {
  const std::string word(76, 'x');
  EXPECT_EQ(wrapped(word + " 95 % of"), word + "\n  95 % of");
  EXPECT_EQ(wrapped(word + " 10 GbE"), word + "\n  10 GbE");
  EXPECT_EQ(wrapped(word + " does not fit"), word + "\n  does not fit");
  EXPECT_EQ(wrapped("  7  apart", 3), "  7  apart");
}

TEST(PointSentences, ThoseThatAreAlikeNameAllTheirPoints) {
  PointSentences sentences;
  sentences.add("ddp", 1, "compute: 95 % of it, 50 % bound; a faster GPU");
  sentences.add("ddp", 1, "note: alone");
  sentences.add("ddp", 4, "compute: 91.5 % of it, 50 % bound; a faster GPU");
  sentences.add("fsdp", 4, "compute: 97 % of it, 50 % bound; a faster GPU");
  sentences.add("fsdp", 4, "compute: 97 % of it; a faster GPU");
  sentences.add("fsdp", 4, "8 ms exposed");
  sentences.add("fsdp", 8, "9 ms exposed");
  EXPECT_THAT(
      sentences.texts(),
      ElementsAre(
          "ddp on 1, 4 GPUs; fsdp on 4 GPUs: compute: 91.5 to 97 % of it, 50 % bound; a faster GPU",
          "ddp on 1 GPU: note: alone", "fsdp on 4 GPUs: compute: 97 % of it; a faster GPU",
          "fsdp on 4 GPUs: 8 ms exposed", "fsdp on 8 GPUs: 9 ms exposed"));
}

TEST(PointSentences, AShareKeepsItsSign) {
  PointSentences sentences;
  sentences.add("ddp", 1, "off by 5 %, in 2-3 % of it");
  sentences.add("ddp", 2, "off by -3 %, in 2-3 % of it");
  EXPECT_THAT(sentences.texts(), ElementsAre("ddp on 1, 2 GPUs: off by -3 to 5 %, in 2-3 % of it"));
}

TEST(WideTable, GoesOnBelowItselfWithItsFirstColumns) {
  Table table({{"who", Table::Align::left}, {"n"}, {"first"}, {"second"}, {"third"}});
  table.add_row({"a", "1", "11", "12", "13"});
  EXPECT_EQ(table.folded(80, 2), table.text());
  EXPECT_EQ(table.folded(28, 2), table.text());  // exactly as wide as the table
  EXPECT_EQ(table.folded(27, 2),
            "who  n  first  second\n"
            "a    1     11      12\n"
            "\n"
            "who  n  third\n"
            "a    1     13\n");
  // The blocks of a folded table are as even as possible.
  Table even({{"who", Table::Align::left}, {"first"}, {"third"}, {"fifth"}, {"sixth"}});
  even.add_row({"a", "1", "3", "5", "6"});
  EXPECT_EQ(even.folded(25, 1),
            "who  first  third\n"
            "a        1      3\n"
            "\n"
            "who  fifth  sixth\n"
            "a        5      6\n");
  // A column that is wider than the line is still printed.
  EXPECT_THAT(lines(table.folded(4, 1)), testing::Contains("a        12"));
  Table divided({{"who", Table::Align::left}, {"first"}, {"second", Table::Align::right, true}});
  divided.add_row({"a", "1", "2"});
  EXPECT_EQ(divided.folded(18, 1), divided.text());
  EXPECT_EQ(divided.folded(17, 1), "who  first\na        1\n\nwho  second\na         2\n");
}

TEST(Text, FitsATerminalOfEightyColumns) {
  ResultRecord record = sample_record();
  record.predictions[0].notes.push_back(
      "a note that is long enough to need a second line, because it says more than anybody wants");
  for (const std::string& line : lines(render_text(record))) {
    EXPECT_LE(display_width(line), 80u) << line;
  }
}

TEST(Traffic, OfLinksThatCarryTheSameIsOneRow) {
  ResultRecord record = sample_record();
  record.predictions.resize(1);
  record.predictions[0].traffic = {{"NVLink", 1e9, 2e9, 0.1},
                                   {"PCIe", 1e6, 2e6, 0.01},
                                   {"host memory", 1e6, 2e6, 0.01},
                                   {"NIC", 1e6, 2e6, 0.02}};
  const Table table = traffic_table(record);
  ASSERT_EQ(table.rows().size(), 3u);
  EXPECT_EQ(table.rows()[1][2], "PCIe, host memory");
  EXPECT_EQ(table.rows()[2][2], "NIC");
}

TEST(Split, LeavesOutWhatNoPointHas) {
  ResultRecord record = sample_record();
  for (Prediction& p : record.predictions) p.split.host_bound = p.split.waiting = 0;
  record.predictions[0].split.waiting = 1e-3;
  const std::string text = split_table(record).text();
  EXPECT_THAT(text, HasSubstr("waiting"));
  EXPECT_THAT(text, Not(HasSubstr("host-bound")));
}

}  // namespace
}  // namespace lockstep::sentences_test
