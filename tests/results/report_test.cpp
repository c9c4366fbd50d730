// Does the page say the right answer, hold everything that it shows, and nothing that it must not?
#include "results/report.hpp"

#include <gmock/gmock.h>

#include "results/report_answer.hpp"
#include "sample_record.hpp"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
  EXPECT_EQ(told.sentences[4], "What limits ddp on 4 GPUs: compute: 88 % of the step.");
  EXPECT_EQ(told.highlights[1].value, "$0.40");
}

TEST(ReportAnswer, WhatDoesNotFitIsNoChoice) {
  Prediction misfit = point("ddp", 8, 10, 0);
  misfit.out_of_memory = OutOfMemory{2e9, {"micro-batch 16"}};
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
  EXPECT_EQ(agreements(chapter).size(), 2U);
  EXPECT_EQ(answer(chapter).sentences.back(),
            "1 of these steps was measured by others: predictions are off by 25.0 % on average, "
            "+25.0 % at worst; 1 of 1 lie within the 90 % interval.");
}

TEST(ReportAnswer, TheFrontHoldsWhatNothingBeats) {
  Prediction misfit = point("ddp", 8, 1, 0.01);
  misfit.out_of_memory = OutOfMemory{};
  const Prediction unpriced = point("e", 1, 50, 0);
  EXPECT_THAT(pareto_front({point("a", 1, 400, 0.4), point("b", 1, 100, 0.9), misfit,
                            point("c", 1, 200, 0.9), point("d", 1, 500, 0.39), unpriced}),
              ElementsAre(0, 1, 4));
}

TEST(Report, LoadsNothingAndRunsNothingOfTheUsers) {
  ReportChapter chapter = chapter_of({point("</script><script>alert(1)</script>", 1, 1, 1)});
  chapter.record.scenario = "<img src=x onerror=alert(1)> & \"co\"";
  chapter.inputs = "name: <b>bold</b>\n";
  const std::string page = render_report({chapter});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>bold")));
  EXPECT_THAT(page, HasSubstr("<h1>&lt;img src=x onerror=alert(1)&gt; &amp; &quot;co&quot;</h1>"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loads : {"<script src", "url(", "@import", "fetch(", "XMLHttpRequest", "{{"}) {
    EXPECT_THAT(page, Not(HasSubstr(loads))) << loads;
  }
}

// A chart without its table is nothing to a screen reader.
TEST(Report, EveryChartHasATableBehindIt) {
  ReportChapter chapter;
  chapter.record = sample_record();
  const std::string whole = render_report({chapter, chapter});
  const std::string page = whole.substr(0, whole.find("<script"));
  std::size_t charts = 0;
  for (std::size_t at = page.find("<canvas "); at != std::string::npos;
       at = page.find("<canvas ", at + 1)) {
    ++charts;
    const std::string figure = page.substr(at, page.find("</figure>", at) - at);
    EXPECT_THAT(figure, HasSubstr("role=img"));
    EXPECT_THAT(figure, HasSubstr("aria-labelledby=\""));
    EXPECT_THAT(figure, HasSubstr("<tbody>\n<tr><th scope=row"));
  }
  EXPECT_EQ(charts, 2 * 10U);  // the sample has something for each
  EXPECT_EQ(whole, render_report({chapter, chapter}));
}

TEST(Report, ARecordWithoutPredictionsIsStillAPage) {
  const std::string page = render_report({chapter_of({})});
  EXPECT_THAT(page, HasSubstr("There is no prediction"));
  EXPECT_THAT(page, Not(HasSubstr("<figure")));
}

}  // namespace
}  // namespace lockstep
