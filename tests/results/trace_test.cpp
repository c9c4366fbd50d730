// Are traces written unchanged, compressed if the name says so, and refused if they cannot be
// written?
#include "results/trace.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/output.hpp"
#include "test_folder.hpp"

namespace lockstep::trace_test {
namespace {

// gzread() reads plain and compressed files.
std::string content(const std::string& path, bool& compressed) {
  const gzFile file = gzopen(path.c_str(), "rb");
  std::string text(1 << 20, ' ');
  text.resize(static_cast<std::size_t>(gzread(file, text.data(), 1 << 20)));
  compressed = gzdirect(file) == 0;
  gzclose(file);
  return text;
}

std::string small_document() {
  TraceEvents events;
  events.process(1, "rank 0");
  events.track({1, 7}, "compute");
  events.slice({1, 7}, "kernel", "a \"quoted\" \\ name\n", 1e-3, 2.5e-3, argument("bytes", 12.0));
  events.arrow("ends", 3, {1, 7}, 2e-3, {1, 7}, 2e-3);
  events.counter(1, "NVLink", 1e-3, argument("GB/s", 1.5));
  return trace_document({.title = "t", .device = "d", .backend = "nccl", .rank = 2, .ranks = 4},
                        events.text());
}

TEST(Trace, IsJsonWithTheRankWhereToolsLookForIt) {
  const auto trace = nlohmann::json::parse(small_document());
  EXPECT_EQ(trace["distributedInfo"]["rank"], 2);
  EXPECT_EQ(trace["traceEvents"].size(), 8u);
  EXPECT_EQ(trace["traceEvents"][4]["name"], "a \"quoted\" \\ name\n");
  EXPECT_EQ(trace["traceEvents"][4]["ts"], 1000.0);
  EXPECT_EQ(trace["traceEvents"][4]["dur"], 1500.0);
  EXPECT_EQ(trace["traceEvents"][4]["args"]["bytes"], 12);
  // HolisticTraceAnalysis searches for this text.
  EXPECT_NE(small_document().find("\"rank\": 2,"), std::string::npos);
}

TEST(Trace, SlicesThatMeetStillMeetWhenTheyAreRounded) {
  TraceEvents events;
  const double third = 1.0 / 3;
  for (int i = 0; i < 9; ++i)
    events.slice({1, 1}, "c", "n", i * third * 1e-6, (i + 1) * third * 1e-6);
  double end = 0;
  for (const auto& event : nlohmann::json::parse("[" + events.text() + "]")) {
    EXPECT_NEAR(event["ts"].get<double>(), end, 1e-9);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_NEAR(end, 3, 1e-9);
}

TEST(Trace, IsCompressedWhereItsNameSaysSo) {
  for (const std::string name : {"trace.json", "trace.json.gz"}) {
    write_trace(test_folder().file(name), small_document());
    bool compressed = false;
    EXPECT_EQ(content(test_folder().file(name), compressed), small_document());
    EXPECT_EQ(compressed, name.ends_with(".gz"));
  }
}

TEST(Trace, SaysWhyItCannotBeWritten) {
  EXPECT_THROW(write_trace("/nowhere/at/all/trace.json", small_document()), OutputError);
  EXPECT_THROW(write_trace("/dev/full", small_document()), OutputError);
  try {
    write_trace("/nowhere/at/all/trace.json.gz", small_document());
  } catch (const OutputError& error) {
    EXPECT_STREQ(error.what(),
                 "cannot write /nowhere/at/all/trace.json.gz: No such file or directory");
  }
}

}  // namespace
}  // namespace lockstep::trace_test
