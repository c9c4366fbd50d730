// Does an interrupted sweep lose no written row, and are rows of different sweeps never mixed?
#include "sweep/rows_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include "core/output.hpp"
#include "sweep_files.hpp"

namespace lockstep::rows_file_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string row(std::size_t number, const std::string& kind = "answer",
                const std::string& digest = "d") {
  return fmt::format(R"({{"sweep":"{}","row":{},"rows":4,"kind":"{}","set":{{"gpus":1}},{}}})",
                     digest, number, kind,
                     kind == "answer" ? R"("strategy":"a, b","fits":true,"mfu":0.5)"
                                      : R"("reason":"because")") +
         "\n";
}

class Rows : public testing::Test {
 protected:
  RowsFile open(bool retry = false, const std::string& digest = "d") {
    return RowsFile(folder_.file("out"), digest, {0, 1, 2, 3}, retry);
  }
  TestFolder folder_;
};

TEST_F(Rows, ComeOutInOrderHoweverTheyCameIn) {
  {
    RowsFile rows = open();
    for (const std::size_t number : {2, 0, 3, 1}) rows.append(number, row(number));
    EXPECT_TRUE(folder_.has("out.part"));
    EXPECT_FALSE(folder_.has("out"));
    rows.finish(false);
  }
  EXPECT_EQ(folder_.read("out"), row(0) + row(1) + row(2) + row(3));
  EXPECT_FALSE(folder_.has("out.part"));
}

TEST_F(Rows, WhatWasLeftBehindIsTakenUpButNotHalfALine) {
  folder_.write("out.part", row(3) + row(1) + row(2).substr(0, 40));
  RowsFile rows = open();
  EXPECT_THAT(rows.missing(), ElementsAre(0, 2));
  rows.append(0, row(0));
  rows.append(2, row(2));
  rows.finish(false);
  EXPECT_EQ(folder_.read("out"), row(0) + row(1) + row(2) + row(3));
}

TEST_F(Rows, AWholeFileIsTakenUpToo) {
  folder_.write("out", row(0) + row(1) + row(2, "failed") + row(3, "refused"));
  EXPECT_TRUE(open().missing().empty());
  EXPECT_THAT(open(true).missing(), ElementsAre(2));  // with --retry-failed
  RowsFile again = open(true);
  again.append(2, row(2));
  again.finish(false);
  EXPECT_EQ(folder_.read("out"), row(0) + row(1) + row(2) + row(3, "refused"));
}

TEST_F(Rows, OfAnotherSweepAreNotOverwritten) {
  folder_.write("out", row(0));
  EXPECT_THAT(refusal([&] { open(false, "other"); }), HasSubstr("rows of another sweep"));
  EXPECT_EQ(folder_.read("out"), row(0));
  EXPECT_FALSE(folder_.has("out.part"));
  folder_.write("out", "a: b\n");
  EXPECT_THAT(refusal([&] { open(); }), HasSubstr("holds something else"));
  folder_.write("out.part", row(7));
  EXPECT_THAT(refusal([&] { open(); }), HasSubstr("rows of another sweep"));
  EXPECT_TRUE(folder_.has("out.part"));
}

TEST_F(Rows, TwoProgramsDoNotWriteTheSame) {
  const RowsFile here = open();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused =
        refusal([&] { open(); }).find("another sweep writes to it now") != std::string::npos;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Rows, AreCountedByKind) {
  RowsFile rows = open();
  rows.append(0, row(0));
  rows.append(1, row(1, "refused"));
  rows.append(2, row(2, "failed"));
  const RowsFile::Counts counts = rows.counts();
  EXPECT_EQ(counts.answers, 1U);
  EXPECT_EQ(counts.fitting, 1U);
  EXPECT_EQ(counts.refused, 1U);
  EXPECT_EQ(counts.failed, 1U);
  EXPECT_EQ(counts.first_reason, "because");
}

TEST_F(Rows, AsCsvHaveTheSameCellsInTheSameOrder) {
  RowsFile rows = open();
  for (std::size_t number = 0; number < 4; ++number) {
    rows.append(number, row(number, number == 2 ? "refused" : "answer"));
  }
  rows.finish(true);
  const std::string csv = folder_.read("out");
  EXPECT_THAT(csv, HasSubstr("row,kind,set gpus,precision,strategy,gpus,"));
  EXPECT_THAT(csv, HasSubstr("\n0,answer,1,,\"a, b\","));
  EXPECT_THAT(csv, HasSubstr("\n2,refused,1,,"));
  EXPECT_THAT(csv, HasSubstr(",because\n"));
}

TEST_F(Rows, AnUnwritablePlaceIsSaid) {
  EXPECT_THROW(RowsFile("/proc/none/out", "d", {0}), OutputError);
}

TEST_F(Rows, ShardsMergeToTheWhole) {
  folder_.write("a", row(1) + row(3));
  folder_.write("b", row(0) + row(2));
  const auto merge = [&](std::vector<std::string> names) {
    for (std::string& name : names) name = folder_.file(name);
    merge_rows(names, folder_.file("all"), false);
  };
  merge({"a", "b"});
  EXPECT_EQ(folder_.read("all"), row(0) + row(1) + row(2) + row(3));
  EXPECT_THAT(refusal([&] { merge({"a"}); }),
              HasSubstr("2 of 4 rows are missing, the first is row 0"));
  EXPECT_THAT(refusal([&] { merge({"a", "a"}); }), HasSubstr("row 1 stands in"));
  folder_.write("c", row(0, "answer", "x"));
  EXPECT_THAT(refusal([&] { merge({"a", "c"}); }), HasSubstr("is of another sweep"));
  EXPECT_THAT(refusal([&] { merge({"a", "nowhere"}); }), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace lockstep::rows_file_test
