// Which alternatives do lists in a scenario make, how are they sorted, and which lists are refused?
#include "scenario/alternatives.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/data.hpp"
#include "helpers.hpp"
#include "questions/run.hpp"
#include "results/alternatives.hpp"
#include "results/render.hpp"
#include "schema/accepts.hpp"

namespace lockstep::alternatives_test {
namespace {

const std::string rest = "name: test\nbatch: {per_gpu: 8}\nstrategies: [ddp]\n";

AlternativesRecord run_all(const std::vector<Alternative>& alternatives) {
  AlternativesRecord all;
  for (const Alternative& alternative : alternatives) {
    std::vector<Chosen> chosen;
    for (const auto& [field, value] : alternative.chosen) chosen.push_back({field, value});
    all.alternatives.push_back({chosen, run_scenario(alternative.scenario, {1, {}})});
  }
  return all;
}

const Prediction& at(const AlternativesRecord& all, std::size_t row) {
  const AlternativeRow& r = all.order.at(row);
  return all.alternatives.at(static_cast<std::size_t>(r.alternative))
      .record.predictions.at(static_cast<std::size_t>(r.prediction));
}

TEST(Alternatives, EveryCombinationInTheOrderOfTheFields) {
  const auto all = read_alternatives_text(
      "name: test\nmodel: [resnet18, resnet50]\nplatform: [g5.12xlarge, p4d.24xlarge]\n"
      "precision: [fp32, amp-fp16]\nbatch: {global: [32, 64, 96]}\nstrategies: [ddp]\n",
      "test.yaml");
  ASSERT_EQ(all.size(), 24u);
  EXPECT_EQ(all[0].scenario.model, "resnet18");
  EXPECT_EQ(all[23].scenario.model, "resnet50");
  std::set<std::vector<std::pair<std::string, std::string>>> different;
  for (const Alternative& alternative : all) {
    different.insert(alternative.chosen);
    ASSERT_EQ(alternative.chosen.size(), 4u);
    for (const auto& [field, value] : alternative.chosen) {
      EXPECT_EQ(value_of(alternative.scenario, field), value) << field;
    }
  }
  EXPECT_EQ(different.size(), 24u);
  EXPECT_EQ(all[0].chosen[0].first, "model");
}

TEST(Alternatives, RecipesOfTrainingAreListedToo) {
  const auto all = read_alternatives_text(
      rest +
          "model: resnet18\nplatform: g5.12xlarge\noptimizer: {momentum: [0, 0.9]}\n"
          "convergence: {learning_rate: [0.01, 0.1, 1]}\n",
      "test.yaml");
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].scenario.optimizer.momentum, 0);
  EXPECT_EQ(all[5].scenario.optimizer.momentum, 0.9);
  EXPECT_EQ(all[4].scenario.convergence->learning_rate, 0.1);
  EXPECT_EQ(value_of(all[3].scenario, "optimizer.momentum"), "0.9");
  EXPECT_EQ(value_of(all[3].scenario, "convergence.learning_rate"), "0.01");
  EXPECT_EQ(value_of(scenario_of("gpus: 1\n"), "convergence.learning_rate"), "");
}

// Made-up accuracies: row 2 is the fastest with all seeds, row 3 the cheapest, and a seed of row 4
// misses the target.
TEST(Alternatives, WhatWasTrainedIsInATableOfItsOwn) {
  AlternativesRecord all = run_all(read_alternatives_text(
      rest + "model: [vgg11, vgg13, vgg16, vgg19]\nplatform: dgx-a100-80gb\n", "test.yaml"));
  sort_rows(all, SortKey::none);
  EXPECT_THAT(render_text(all), testing::Not(testing::HasSubstr("Accuracy")));
  const double seconds[]{9, 3, 5, 1}, dollars[]{0.9, 0.3, 0.00012, 0.1};
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == 0) continue;  // not trained
    Accuracy& accuracy = all.alternatives[i].record.predictions.front().accuracy.emplace();
    accuracy.seeds = 3;
    accuracy.last = 0.5 + 0.1 * static_cast<double>(i);
    accuracy.target = 0.5;
    accuracy.reached = i == 3 ? 2 : 3;
    accuracy.seconds_to_target = seconds[i];
    accuracy.dollars_to_target = dollars[i];
    accuracy.seconds_interval = Interval{seconds[i] - 1.5, seconds[i] + 1.5};
    accuracy.dollars_interval = Interval{dollars[i] / 2, dollars[i] * 2};
  }
  const std::string text = render_text(all);
  EXPECT_THAT(text, testing::ContainsRegex("\n  2  vgg13  ddp +1 +60.0 %.* 3 of 3 +3.00 s"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  4  vgg19  ddp +1 +80.0 %.* 2 of 3 +1.00 s"));
  EXPECT_THAT(text,
              testing::HasSubstr("\n\nTarget first: row 2, ddp on 1 GPU, 3.00 s (1.50 s .. "
                                 "4.50 s); row 3 may be as\n  good: the intervals overlap\n"));
  EXPECT_THAT(text, testing::HasSubstr("Target most cheaply: row 3, ddp on 1 GPU, $0.000120 "
                                       "($0.0000600 .. $0.000240)\n"));
  for (std::size_t i = 1; i < 4; ++i) {
    all.alternatives[i].record.predictions.front().accuracy->reached = 2;
  }
  EXPECT_THAT(render_text(all),
              testing::HasSubstr("\nNo row reaches the target with every seed.\n"));
  for (std::size_t i = 1; i < 4; ++i) {
    all.alternatives[i].record.predictions.front().accuracy->target.reset();
  }
  EXPECT_THAT(render_text(all),
              testing::Not(testing::ContainsRegex("arget (first|most)|the target")));
}

// A list with one value equals the value alone.
TEST(Alternatives, AListOfOneIsTheValueAlone) {
  const auto alone = read_alternatives_text(
      rest + "model: resnet18\nplatform: g5.12xlarge\nprecision: amp-fp16\n", "test.yaml");
  const auto listed = read_alternatives_text(
      rest + "model: [resnet18]\nplatform: [g5.12xlarge]\nprecision: [amp-fp16]\n", "test.yaml");
  ASSERT_EQ(alone.size(), 1u);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_TRUE(alone[0].chosen.empty());
  EXPECT_EQ(render_json(run_scenario(alone[0].scenario, {1, {}})),
            render_json(run_scenario(listed[0].scenario, {1, {}})));
}

TEST(Alternatives, OnlyRunTakesThemAndWrongListsAreLocated) {
  const std::string two = rest + "model: resnet18\nplatform: [g5.12xlarge, p4d.24xlarge]\n";
  EXPECT_THAT(refusal([&] { read_scenario_text(two, "test.yaml"); }),
              testing::HasSubstr(
                  "test.yaml:5:11: platform: lists alternatives, where one value is asked for"));
  const auto wrong = [](const std::string& text, const std::string& what) {
    EXPECT_THAT(refusal([&] { read_alternatives_text(text, "test.yaml"); }),
                testing::HasSubstr(what));
  };
  wrong(rest + "model: []\nplatform: g5.12xlarge\n", "test.yaml:4:8: model: lists no alternative");
  wrong(rest + "model: [vgg11, vgg11]\nplatform: g5.12xlarge\n",
        "test.yaml:4:16: model[1]: 'vgg11' is listed twice");
  wrong(rest + "model: [vgg11, [a]]\nplatform: g5.12xlarge\n", "must be a value, not a list");
  wrong(two + "anchor: [{gpus: 1, step_time: 1 s}]\n", "anchor: belongs to one alternative");
  wrong(rest + "model: resnet18\nplatform: g5.12xlarge\nprecision: [fp32, fp33]\n",
        "test.yaml:6:19: precision: unknown value 'fp33'");
}

TEST(Alternatives, TheBestComeFirstAndWhatDoesNotFitLast) {
  AlternativesRecord all = run_all(read_alternatives_text(
      "name: test\nmodel: gpt\nmodel_parameters: {layers: 24, hidden: 1024, heads: 16}\n"
      "dataset: {samples: 1e5}\nplatform: [rtx3090-x8, g5.12xlarge, dgx-a100-80gb]\n"
      "batch: {per_gpu: [4, 16]}\nprecision: amp-bf16\noptimizer: {name: adamw}\ngpus: [2, 4]\n"
      "strategies: [ddp, fsdp]\n",
      "test.yaml"));
  sort_rows(all, SortKey::none);
  ASSERT_EQ(all.order.size(), 24u);
  EXPECT_EQ(all.order[23].alternative, 5);
  const auto expect_sorted = [&](SortKey key, auto value) {
    sort_rows(all, key);
    ASSERT_EQ(all.order.size(), 24u);
    int misfits = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      misfits += at(all, i).out_of_memory ? 1 : 0;
      if (i == 0) continue;
      EXPECT_LE(at(all, i - 1).out_of_memory.has_value(), at(all, i).out_of_memory.has_value());
      if (at(all, i).out_of_memory) continue;
      EXPECT_LE(value(at(all, i - 1)), value(at(all, i)));
    }
    EXPECT_GT(misfits, 0);
    EXPECT_LT(misfits, 24);
  };
  expect_sorted(SortKey::time, [](const Prediction& p) { return p.total_seconds; });
  expect_sorted(SortKey::memory, [](const Prediction& p) { return p.memory.device; });
  for (AlternativeResult& answered : all.alternatives) {
    for (Prediction& p : answered.record.predictions) {
      // a figure whose order differs from the others
      p.energy = Energy{{0, p.total_seconds * p.memory.device}, {}};
    }
  }
  expect_sorted(SortKey::energy, [](const Prediction& p) { return p.energy->kilowatt_hours.high; });
  expect_sorted(SortKey::throughput, [](const Prediction& p) { return -p.samples_per_second; });
  expect_sorted(SortKey::cost,
                [](const Prediction& p) { return p.dollars > 0 ? p.dollars : 1e300; });
  // An alternative that does not fit has no price, and suggests one that would fit.
  for (std::size_t i = 0; i < 24; ++i) {
    if (!at(all, i).out_of_memory) continue;
    EXPECT_EQ(at(all, i).dollars, 0);
    for (const std::string& would : at(all, i).out_of_memory->suggestions) {
      EXPECT_THAT(would, testing::HasSubstr(" a step, "));
    }
  }
}

TEST(Alternatives, OneScenariosRowsAreSortedLikewiseAndAlikeSentencesAreOne) {
  ResultRecord record = run_scenario(scenario_of("gpus: [1, 8, 2]\n"), {1, {}});
  sort_predictions(record, SortKey::throughput);
  EXPECT_EQ(record.predictions[0].gpus, 8);
  EXPECT_EQ(record.predictions[2].gpus, 1);
  AlternativesRecord all = run_all(read_alternatives_text(
      rest + "model: [vgg16, vgg19]\nplatform: dgx-a100-80gb\n", "test.yaml"));
  for (AlternativeResult& one : all.alternatives) {
    one.record.predictions.front().bottleneck = "compute: 9 % of " + one.record.model + "; buy";
    one.record.predictions.front().notes = {"odd " + one.record.model};
  }
  sort_rows(all, SortKey::none);
  const std::string text = render_text(all);
  EXPECT_THAT(text, testing::HasSubstr("rows 1-2: compute; buy\n"));
  EXPECT_THAT(text, testing::HasSubstr("row 2: note: odd vgg19\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("scaling")));  // each has one GPU count
}

TEST(Alternatives, ShippedFilesRunAndAllRenderingsHaveAllRows) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(data_folder("scenarios/alternatives"))) {
    SCOPED_TRACE(entry.path());
    ++files;
    AlternativesRecord all =
        run_all(read_alternatives_node(Node::parse_file(entry.path()), entry.path()));
    EXPECT_GT(all.alternatives.size(), 1u);
    sort_rows(all, SortKey::time);
    const auto json = nlohmann::json::parse(render_json(all));
    EXPECT_EQ(schema_faults(nlohmann::json::parse(alternatives_schema()), json), "");
    EXPECT_EQ(json["order"].size(), all.order.size());
    EXPECT_EQ(json["alternatives"].size(), all.alternatives.size());
    const std::string csv = render_csv(all), text = render_text(all);
    EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')),
              all.order.size() + 1);
    EXPECT_THAT(text, testing::HasSubstr("Fastest: row 1, "));
    EXPECT_THAT(text, testing::HasSubstr("Cheapest: row "));
  }
  EXPECT_GT(files, 0);
}

// If not even one sample per GPU fits, the answer says how many GPUs are needed, and with that
// number the model fits.
TEST(Alternatives, NothingFitsUntilThereAreEnoughGpus) {
  const std::string text =
      "name: test\nmodel: gpt\nmodel_parameters: {layers: 96, hidden: 12288, heads: 96}\n"
      "platform: dgx-a100-80gb\nbatch: {micro: 1}\nprecision: amp-bf16\n"
      "optimizer: {name: adamw}\nactivation_checkpointing: true\n";
  const auto run = [&](const std::string& more) {
    return run_scenario(read_scenario_text(text + more, "test.yaml"), {1, {}}).predictions.front();
  };
  const Prediction few = run("gpus: 8\nstrategies: [ddp]\n");
  ASSERT_TRUE(few.out_of_memory);
  ASSERT_EQ(few.out_of_memory->suggestions.size(), 1u);
  EXPECT_THAT(few.out_of_memory->suggestions[0],
              testing::StartsWith("about 16 GPUs, fsdp with full_shard, cpu_offload"));
  EXPECT_FALSE(run("gpus: 16\nstrategies: [{fsdp: {cpu_offload: true}}]\n").out_of_memory);
  EXPECT_TRUE(run("gpus: 8\nstrategies: [{fsdp: {cpu_offload: true}}]\n").out_of_memory);
  EXPECT_FALSE(run("gpus: 64\nstrategies: [fsdp]\n").out_of_memory);
  EXPECT_TRUE(run("gpus: 32\nstrategies: [fsdp]\n").out_of_memory);
}

}  // namespace
}  // namespace lockstep::alternatives_test
