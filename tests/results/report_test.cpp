// Does the page say the right answer, hold everything that it shows, and nothing that it must not?
#include "results/report.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "results/report_answer.hpp"
#include "results/report_figures.hpp"
#include "results/staleness.hpp"
#include "sample_record.hpp"

namespace lockstep::report_test {
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

Prediction trained(const std::string& strategy, double seconds, double dollars, double accuracy) {
  Prediction p = point(strategy, 4, seconds, dollars);
  p.accuracy.emplace();
  p.accuracy->last = accuracy;
  // Judged last after half of the run that the record prices.
  p.accuracy->curve = {{seconds / 2, 1, accuracy, {accuracy, accuracy}}};
  return p;
}

TEST(ReportAnswer, TheFrontsOfAccuracyHoldWhatNothingBeats) {
  Prediction misfit = trained("misfit", 1, 1, 1);
  misfit.out_of_memory = OutOfMemory{};
  const std::vector<Prediction> all{
      trained("slow and good", 100, 1, 0.9), trained("fast and poor", 10, 3, 0.7),
      trained("slow and poor", 100, 2, 0.7), misfit,
      point("untrained", 4, 5, 0.5),         trained("of no price", 20, 0, 0.8)};
  EXPECT_THAT(accuracy_front(all, &TrainingSpent::seconds), ElementsAre(0, 1, 5));
  EXPECT_THAT(accuracy_front(all, &TrainingSpent::dollars), ElementsAre(0));
  EXPECT_EQ(spent_on_training(all[0]).seconds, 50);
  EXPECT_EQ(spent_on_training(all[0]).dollars, 0.5);
  EXPECT_EQ(spent_on_training(all[4]).seconds, 0);
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
  EXPECT_EQ(charts, 2 * 10U);  // the sample has something for each but for training that fits
  EXPECT_EQ(whole, render_report({chapter, chapter}));
}

// A chart of nothing is not drawn.
TEST(Report, DrawsWhatThereIsToSee) {
  const auto charts = [](const ReportChapter& chapter) {
    std::vector<std::string> names;
    for (const Chart& chart : charts_of(chapter)) names.push_back(chart.name);
    return names;
  };
  Prediction one = point("ddp", 1, 400, 0.4);
  one.split.exposed_communication = 0;
  one.staleness.reset();
  one.traffic.clear();
  one.accuracy.reset();
  one.provenance = {1, 0, 0};
  EXPECT_THAT(charts(chapter_of({one})), ElementsAre("step", "memory", "cost"));
  Prediction other = one;
  other.gpus = 4;
  EXPECT_THAT(charts(chapter_of({one, other})),
              ElementsAre("step", "throughput", "time", "memory", "cost"));
  other = one;
  other.split.exposed_communication = 1e-3;
  EXPECT_THAT(charts(chapter_of({one, other})), testing::Contains("exposed"));
  other = one;
  other.staleness = staleness_of({{0, 3}});  // never stale
  EXPECT_THAT(charts(chapter_of({one, other})), Not(testing::Contains("staleness")));
  other.staleness = staleness_of({{0, 3}, {1, 1}});
  EXPECT_THAT(charts(chapter_of({one, other})), testing::Contains("staleness"));
  other = one;
  other.provenance = {0.98, 0, 0.02};
  EXPECT_THAT(charts(chapter_of({one, other})), testing::Contains("provenance"));
  other.provenance = {0.996, 0, 0.004};
  EXPECT_THAT(charts(chapter_of({one, other})), Not(testing::Contains("provenance")));
}

// The page's script draws from this, and nothing else.
TEST(Report, HoldsWhatItsScriptDraws) {
  ReportChapter chapter = chapter_of({trained("ddp", 100, 2, 0.75), trained("fsdp", 50, 2, 0.5)});
  MemoryCurve curve{"ddp", 4, {{"forward of a", 5e6}, {"backward of a", 7e6}}, {}, "backward of a"};
  curve.at_peak = {{"a.weight", "parameters", 1, 4 << 20}, {"others", "", 2, 3 << 20}};
  chapter.memory = {curve};
  StepTimeline timeline{"ddp", 4, 0, 3, 6e-3, {}};
  timeline.lanes = {{"compute", {{SliceKind::forward, "<a>", 0, 4e-3}}}};
  thin_out(timeline, 10);
  chapter.timelines = {timeline};
  const auto data = nlohmann::json::parse(report_data({chapter}));
  const auto& one = data["chapters"][0];
  EXPECT_EQ(one["result"]["predictions"].size(), 2u);
  EXPECT_EQ(one["training"]["spent"][0]["seconds"], 50);
  EXPECT_EQ(one["training"]["spent"][1]["dollars"], 1);
  EXPECT_EQ(one["training"]["fronts"]["seconds"], nlohmann::json({0, 1}));
  EXPECT_EQ(one["training"]["fronts"]["dollars"], nlohmann::json({0}));
  EXPECT_EQ(one["timelines"][0]["lanes"][0]["name"], "compute");
  EXPECT_EQ(one["timelines"][0]["names"], nlohmann::json({"<a>"}));
  EXPECT_EQ(data["kinds"].size(), slice_kinds.size());
  const std::string page = report_article(chapter, 0);
  EXPECT_THAT(page, HasSubstr("Step 3 of rank 0 lasts 6.00 ms."));
  EXPECT_THAT(page, HasSubstr("&lt;a&gt; (forward) 4.00 ms"));  // the lane's longest, in its table
  EXPECT_THAT(page, HasSubstr("ddp on 4 GPUs: 7.00 MiB at backward of a"));
  const std::string peak = page.substr(page.find("What lives at the peak"));
  for (const char* cell : {"a.weight", "parameters", "4.00 MiB", "57.1 %", "others", "3.00 MiB"}) {
    EXPECT_THAT(peak, HasSubstr(cell));
  }
  // Every timeline can be reached and is described; every button has a name.
  EXPECT_THAT(page, HasSubstr("<canvas data-timeline=\"0\" role=img tabindex=0 aria-labelledby="));
  for (const char* name : {"Zoom in", "Zoom out", "Earlier", "Later", "Whole step"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("aria-label=\"{}\"", name)));
  }
  // Without them there is neither figure nor list.
  const std::string without = report_article(chapter_of({point("ddp", 4, 1, 1)}), 0);
  EXPECT_THAT(without, Not(HasSubstr("data-timeline")));
  EXPECT_THAT(without, Not(HasSubstr("What lives at the peak")));
}

// Everything is a row, the best first; what cannot be says why and has no price.
TEST(Report, BeginsWithAllAlternativesInOneTable) {
  Prediction misfit = point("ddp", 8, 50, 0);
  misfit.out_of_memory = OutOfMemory{.shortfall = 2e9};
  ReportAlternatives comparison;
  comparison.answered.alternatives = {
      {{{"platform", "slow"}}, chapter_of({point("ddp", 4, 400, 0.5)}).record},
      {{{"platform", "fast"}}, chapter_of({misfit, point("fsdp", 8, 100, 1.5)}).record}};
  comparison.answered.alternatives[0].record.failures = {{"zero", 2, "it <crashed>"}};
  comparison.refused = {{{{"platform", "<none>"}}, "no such platform"}};
  comparison.sorted_by = SortKey::time;
  sort_rows(comparison.answered, comparison.sorted_by);
  const ReportChapter chapter = chapter_of({point("ddp", 4, 400, 0.5)});
  const std::string page = render_report({chapter, chapter}, &comparison);
  const std::string first =
      page.substr(page.find("<article"), page.find("</article>") - page.find("<article"));
  EXPECT_THAT(first, HasSubstr("<h1>3 alternatives compared</h1>"));
  EXPECT_THAT(first, HasSubstr("fast, fsdp on 8 GPUs is fastest: the whole run takes 100 s (90 % "
                               "interval 80.0 s to 125 s)."));
  EXPECT_THAT(first, HasSubstr("slow, ddp on 4 GPUs</dd>"));  // the cheapest
  EXPECT_THAT(first, HasSubstr("1 of 3 points does not fit into memory."));
  EXPECT_THAT(first, HasSubstr("1 of 3 alternatives cannot be; the table says why."));
  const auto rows_behind = [&first](const std::string& what) {
    std::vector<std::string> rows;
    const std::size_t begin = first.find(what), end = first.find("</tbody>", begin);
    for (std::size_t at = first.find("<tr><th scope=row>", begin); at < end;
         at = first.find("<tr><th scope=row>", at + 1)) {
      std::string text;
      bool tag = false;
      for (const char c : first.substr(at, first.find("</tr>", at) - at)) {
        tag = c == '<' || (tag && c != '>');
        if (c == '<') text += text.empty() || text.back() == '|' ? "" : "|";
        if (!tag && c != '>') text += c;
      }
      rows.push_back(text);
    }
    return rows;
  };
  EXPECT_THAT(
      rows_behind("<h1>"),
      ElementsAre("1|fast|fsdp|8|yes|125 ms|100 ms .. 156 ms|100 s|640|$1.50|3.73 GiB|barely (9.54 "
                  "MiB free, 2 retries)|",
                  "2|slow|ddp|4|yes|125 ms|100 ms .. 156 ms|400 s|160|$0.50|3.73 GiB|barely (9.54 "
                  "MiB free, 2 retries)|",
                  "3|fast|ddp|8|NO|125 ms|100 ms .. 156 ms|50.0 s|1,280|-|3.73 GiB|1.86 GiB short|",
                  "4|slow|zero|2|no answer|-|-|-|-|-|-|it &lt;crashed&gt;|",
                  "5|&lt;none&gt;|-|-|cannot be|-|-|-|-|-|-|no such platform|"));
  // Both charts, each with its table, and a way to reach them.
  EXPECT_THAT(rows_behind("data-chart=\"alternatives\""),
              ElementsAre("1|fast, fsdp|8|100 s|80.0 s .. 125 s|",
                          "2|slow, ddp|4|400 s|320 s .. 500 s|", "3|fast, ddp|8|does not fit|-|"));
  EXPECT_THAT(
      first,
      HasSubstr("data-chart=\"alternatives\" data-chapter=\"comparison\" role=img tabindex=0"));
  EXPECT_THAT(first,
              HasSubstr("data-chart=\"cost\" data-chapter=\"comparison\" role=img tabindex=0"));
  EXPECT_THAT(page, HasSubstr("<a href=\"#comparison\">"));
  const std::size_t data = page.find("id=\"data\">") + 10;
  const auto drawn =
      nlohmann::json::parse(page.substr(data, page.find("</script>", data) - data))["comparison"];
  EXPECT_EQ(drawn["result"]["predictions"].size(), 3U);
  EXPECT_EQ(drawn["result"]["predictions"][0]["strategy"], "fast, fsdp");
  EXPECT_EQ(drawn["result"]["predictions"][0]["interval"], nlohmann::json({80, 125}));
  EXPECT_EQ(drawn["result"]["predictions"][2]["fits"], false);
  EXPECT_EQ(drawn["front"], nlohmann::json({0, 1}));
  EXPECT_THAT(render_report({chapter}), Not(HasSubstr("alternatives compared")));
}

TEST(Report, ARecordWithoutPredictionsIsStillAPage) {
  const std::string page = render_report({chapter_of({})});
  EXPECT_THAT(page, HasSubstr("There is no prediction"));
  EXPECT_THAT(page, Not(HasSubstr("<figure")));
}

}  // namespace
}  // namespace lockstep::report_test
