// Does the page have the right answer and everything that it shows, and nothing that it must not
// contain?
#include "results/report.hpp"

#include <gmock/gmock.h>

#include "results/render.hpp"
#include "results/step_timeline.hpp"
#include "sample_record.hpp"

namespace lockstep::report_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

Prediction point(const std::string& strategy, int gpus, double total_seconds, double dollars) {
  Prediction p = sample_record().predictions[0];
  p.strategy = strategy;
  p.gpus = gpus;
  p.total_seconds = total_seconds;
  p.dollars = dollars;
  p.samples_per_second = 64000 / total_seconds;
  return p;
}

ReportChapter chapter_of(std::vector<Prediction> predictions) {
  ReportChapter chapter;
  chapter.record = sample_record();
  chapter.record.predictions = std::move(predictions);
  chapter.record.failures.clear();
  chapter.record.findings.clear();
  return chapter;
}

TEST(ReportAnswer, NamesTheFastestAndTheCheapest) {
  const ReportChapter chapter = chapter_of(
      {point("ddp", 1, 400, 0.4), point("ddp", 4, 125, 0.5), point("fsdp", 4, 250, 1.0)});
  const Answer told = answer(chapter);
  EXPECT_EQ(
      told.sentences[0],
      "ddp on 4 GPUs is fastest: the whole run takes 125 s (90 % interval 100 s to 156 s) and "
      "costs $0.50, 512 samples/s.");
  EXPECT_EQ(told.sentences[1], "ddp on 1 GPU is cheapest: $0.40 for the whole run, in 400 s.");
  EXPECT_EQ(told.sentences[2], "On 4 GPUs, fsdp takes 2.00 times as long.");
  EXPECT_EQ(told.sentences[3],
            "With ddp its 4 GPUs do 3.20 times the work of 1 GPU: 80 % of perfect scaling.");
  EXPECT_EQ(told.sentences[4], "Bottleneck of ddp on 4 GPUs: compute: 88 % of the step.");
  EXPECT_EQ(told.highlights[1].value, "$0.40");
}

TEST(ReportAnswer, WhatDoesNotFitIsNoChoice) {
  Prediction misfit = point("ddp", 8, 10, 0);
  misfit.out_of_memory = OutOfMemory{.shortfall = 2e9, .suggestions = {"micro-batch 16"}};
  const Answer told = answer(chapter_of({point("fsdp", 8, 100, 1), misfit}));
  EXPECT_THAT(told.sentences[0], testing::StartsWith("fsdp on 8 GPUs is fastest"));
  EXPECT_THAT(told.sentences,
              testing::Contains("1 of 2 points do not fit into memory: ddp on 8 GPUs."));
  EXPECT_THAT(
      answer(chapter_of({misfit})).sentences,
      ElementsAre("Nothing fits into memory. ddp on 8 GPUs comes closest: it lacks 1.86 GiB.",
                  "It would fit with: micro-batch 16."));
}

TEST(ReportAnswer, CountsOnlyMeasurementsThatTest) {
  ReportChapter chapter = chapter_of({point("ddp", 1, 400, 0), point("ddp", 4, 125, 0)});
  chapter.measured = {{"ddp", 1, 0.1, "a paper", false},
                      {"ddp", 4, 0.2, "a fit", true},
                      {"ddp", 2, 0.2, "of a point without a prediction", false}};
  EXPECT_EQ(answer(chapter).sentences.back(),
            "1 of these steps was measured by others: predictions are off by 25.0 % on average, "
            "+25.0 % at worst; 1 of 1 lie within the 90 % interval.");
}

TEST(Report, LoadsNothingAndRunsNothingOfTheUsers) {
  ReportChapter chapter = chapter_of({point("</script><script>alert(1)</script>", 1, 1, 1)});
  chapter.record.scenario = "<img src=x onerror=alert(1)> & \"co\"";
  chapter.inputs = "name: <b>bold</b>\n";
  const std::string page = render_report({chapter});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>bold")));
  EXPECT_THAT(page,
              HasSubstr("<title>&lt;img src=x onerror=alert(1)&gt; &amp; &quot;co&quot;</title>"));
  EXPECT_THAT(page, HasSubstr("\\u003cb>bold\\u003c/b>"));
  // The scripts create text nodes from texts, never HTML.
  for (const char* reads_html :
       {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"}) {
    EXPECT_THAT(std::string(report_script), Not(HasSubstr(reads_html)));
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loads : {"<script src", "url(", "@import", "fetch(", "XMLHttpRequest", "{{"}) {
    EXPECT_THAT(page, Not(HasSubstr(loads))) << loads;
  }
}

// Without scripts the page contains the output of `run` in words and tables.
TEST(Report, IsReadableWithoutScripts) {
  ReportChapter chapter;
  chapter.record = sample_record();
  const std::string page = render_report({chapter, chapter});
  const std::size_t begin = page.find("<noscript>");
  const std::string text = page.substr(begin, page.find("</noscript>") - begin);
  EXPECT_THAT(text, HasSubstr("\nstrategy "));
  EXPECT_THAT(text, HasSubstr("Where the step goes"));
  EXPECT_THAT(text, HasSubstr("async, &quot;two&quot; servers"));
  EXPECT_EQ(page, render_report({chapter, chapter}));
}

// The page's scripts draw from this data only.
TEST(Report, HoldsWhatItsScriptsDraw) {
  ReportChapter chapter = chapter_of({point("ddp", 4, 100, 2), point("fsdp", 4, 50, 2)});
  MemoryCurve curve{"ddp", 4, {{"forward of a", 5e6}, {"backward of a", 7e6}}, {}, "backward of a"};
  curve.at_peak = {{"a.weight", "parameters", 1, 4 << 20}, {"others", "", 2, 3 << 20}};
  chapter.memory = {curve};
  StepTimeline timeline{"ddp", 4, 0, 3, 6e-3, {}};
  timeline.lanes = {{"compute", {{SliceKind::forward, "<a>", 0, 4e-3}}}};
  thin_out(timeline, 10);
  chapter.timelines = {json_of(timeline)};
  chapter.measured = {{"ddp", 4, 0.1, "a paper", true}};
  const Json data = report_json({chapter});
  EXPECT_EQ(data["kinds"].size(), slice_kinds.size());
  EXPECT_EQ(data["parts"].size(), step_parts.size());
  EXPECT_FALSE(data.contains("comparison"));
  const Json& shown = data["chapters"][0];
  EXPECT_EQ(shown["result"], Json::parse(render_json(chapter.record)));  // `run --json`
  EXPECT_EQ(shown["answer"]["sentences"], answer(chapter).sentences);
  EXPECT_EQ(shown["answer"]["highlights"][0]["title"], "Fastest");
  EXPECT_EQ(shown["tables"]["summary"]["rows"].size(), 2u);
  EXPECT_EQ(shown["tables"]["summary"]["columns"][0],
            (Json{{"title", "strategy"}, {"left", true}}));
  EXPECT_EQ(shown["timelines"][0]["names"], Json({"<a>"}));
  EXPECT_EQ(shown["timelines"][0]["lanes"][0]["longest"][0]["seconds"], 4e-3);
  EXPECT_EQ(shown["memory"][0]["moments"], Json({"forward of a", "backward of a"}));
  EXPECT_EQ(shown["memory"][0]["at_peak"][1]["bytes"], 3 << 20);
  EXPECT_EQ(shown["measured"][0]["calibration"], true);
}

// The comparison lists every alternative with its chapter, and each impossible one with its reason.
TEST(Report, BeginsWithAllAlternatives) {
  Prediction misfit = point("ddp", 8, 50, 0);
  misfit.out_of_memory = OutOfMemory{.shortfall = 2e9};
  const ReportChapter slow = chapter_of({point("ddp", 4, 400, 0.5)}),
                      fast = chapter_of({misfit, point("fsdp", 8, 100, 1.5)});
  ReportAlternatives comparison;
  comparison.answered.alternatives = {
      {{{"platform", "slow"}, {"batch.per_gpu", "64"}}, slow.record},
      {{{"platform", "fast"}, {"batch.per_gpu", "64"}}, fast.record}};
  comparison.refused = {{{{"platform", "<none>"}, {"batch.per_gpu", "64"}}, "no such platform"}};
  comparison.sorted_by = SortKey::time;
  sort_rows(comparison.answered, comparison.sorted_by);
  const Json data = report_json({slow, fast}, &comparison);
  const Json& compared = data["comparison"];
  EXPECT_THAT(answer(comparison).sentences,
              ElementsAre("fast, per_gpu 64, fsdp on 8 GPUs is fastest: the whole run takes 100 s "
                          "(90 % interval 80.0 s to 125 s).",
                          "1 of 3 points does not fit into memory.",
                          "1 of 3 alternatives cannot be; the table says why."));
  EXPECT_EQ(compared["answer"]["highlights"][1]["detail"], "slow, per_gpu 64, ddp on 4 GPUs");
  EXPECT_EQ(compared["order_text"], "The fastest first; points that do not fit last.");
  EXPECT_EQ(compared["headings"], Json({"platform", "per_gpu"}));
  EXPECT_EQ(compared["order"].dump(),
            R"([{"alternative":1,"prediction":1},{"alternative":0,"prediction":0},)"
            R"({"alternative":1,"prediction":0}])");
  EXPECT_EQ(compared["alternatives"][1]["values"], Json({"fast", "64"}));
  EXPECT_EQ(compared["refused"][0]["reason"], "no such platform");
  EXPECT_EQ(data["chapters"][1]["fits"][0], "NO, 1.86 GiB short");
  EXPECT_THAT(render_report({slow, fast}, &comparison), HasSubstr("2 alternatives"));
}

TEST(Report, ARecordWithoutPredictionsIsStillAPage) {
  EXPECT_THAT(render_report({chapter_of({})}), HasSubstr("There is no prediction"));
}

}  // namespace
}  // namespace lockstep::report_test
