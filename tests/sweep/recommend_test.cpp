// Is the recommended candidate the best one, and is no better candidate left out?
#include "sweep/recommend.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "core/statistics.hpp"
#include "points/measured.hpp"
#include "points/points.hpp"
#include "points/simulate.hpp"
#include "recommend_fixture.hpp"
#include "schema/accepts.hpp"
#include "sweep/candidates.hpp"

namespace lockstep::recommend_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
// The number of candidates on the front that another candidate beats in time, cost and memory. The
// other candidate must then be worse by `worse` (accuracy or energy).
template <class Worse>
std::size_t on_the_front_for(const Recommendation& found, const Worse& worse) {
  std::size_t count = 0;
  for (const std::size_t i : found.pareto) {
    const Verdict& v = found.ranked[i].verdict;
    bool beaten = false;
    for (const Candidate& other : found.ranked) {
      const Verdict& o = other.verdict;
      if (o.total >= v.total || o.dollars >= v.dollars || o.device >= v.device) continue;
      beaten = true;
      EXPECT_TRUE(worse(o, v)) << other.strategy;
    }
    count += beaten ? 1U : 0U;
  }
  return count;
}

// Brute force: a sweep simulates a grid over the same choices.
TEST_F(Recommend, TheFirstIsTheBestOfAllCombinations) {
  folder_.write("s.yaml", training_run);
  struct Row {
    double dollars, seconds, bytes;
  };
  std::vector<Row> rows;
  for (const Json& row : swept(
           {"strategies=ddp,{ddp: {comm_hook: fp16-compress}},"
            "{ddp: {comm_hook: {powersgd: {rank: 4}}}},{ddp: {comm_hook: {top-k: {fraction: 1%}}}},"
            "zero: {stage: 2},{zero: {stage: 2, offload: {optimizer: host}}},"
            "fsdp: {version: 2},fsdp: {version: 1},"
            "{fsdp: {version: 2, sharding: shard_grad_op}},"
            "{fsdp: {version: 2, cpu_offload: true}},parameter_server: {consistency: sync},"
            "parameter_server: {consistency: async}",
            "batch.micro=1..64*2", "activation_checkpointing=false,true"})) {
    if (row["kind"] != "answer" || !row["fits"].get<bool>()) continue;
    // On one GPU FSDP shards nothing: there `recommend` tries FSDP for offloading only, and no
    // server.
    const bool offloads =
        row["set"]["strategies"].get<std::string>().find("offload") != std::string::npos;
    if (row["gpus"] == 1 && row["set"]["strategies"] != "ddp" && !offloads) continue;
    const double whole_node = 4 / row["gpus"].get<double>();
    rows.push_back(
        {whole_node * row["dollars"].get<double>(), row["total_s"], row["device_bytes"]});
  }
  ASSERT_EQ(rows.size(), 306U);
  std::vector<double> bytes;
  for (const Row& row : rows) bytes.push_back(row.bytes);
  std::sort(bytes.begin(), bytes.end());
  // A replay of memory ends early if it exceeds the limit, and its result is shared by GPU counts
  // and strategies; neither may change the answer.
  for (const double limit : {bytes.back(), bytes[60]}) {
    double cheapest = std::numeric_limits<double>::infinity(), shortest = cheapest;
    std::size_t fitting = 0;
    for (const Row& row : rows) {
      if (row.bytes > limit) continue;
      ++fitting;
      cheapest = std::min(cheapest, row.dollars);
      shortest = std::min(shortest, row.seconds);
    }
    const Recommendation found = answer({.memory = limit});
    EXPECT_NEAR(least(found, RankBy::cost), cheapest, 1e-8 * cheapest);
    const Recommendation fast = answer({.memory = limit, .by = RankBy::time});
    EXPECT_NEAR(least(fast, RankBy::time), shortest, 1e-8 * shortest);
    const Recommendation small = answer({.memory = limit, .by = RankBy::memory});
    EXPECT_EQ(small.ranked.size(), fitting);
    EXPECT_EQ(small.ranked.front().verdict.device, bytes.front());
    // The matrix has the least memory of each family, even if few candidates are simulated.
    ASSERT_EQ(found.matrix.size(), small.matrix.size());
    for (std::size_t i = 0; i < found.matrix.size(); ++i) {
      EXPECT_EQ(found.matrix[i].least_memory, small.matrix[i].least_memory);
    }
  }
}

// The lower bounds of compute and communication are below the simulated step for every candidate,
// on one machine and on several slowly connected ones.
TEST_F(Recommend, NeitherComputeNorCommunicationAloneTakesLongerThanTheStep) {
  for (const char* model : {"resnet18", "gpt2"}) {
    std::string text = training_run;
    text.replace(text.find("resnet18"), 8, model);
    const std::string file = folder_.write("s.yaml", text);
    InputFiles files;
    // A search by memory leaves no candidate out because of its time.
    const Recommendation all = recommend(file, {.gpus = "1,2,4,16", .by = RankBy::memory});
    EXPECT_GT(all.ranked.size(), 50U);
    Workloads workloads;
    double closest = 0;
    for (const Candidate& c : all.ranked) {
      const Scenario one = scenario_of(c);
      const Point point = expand(one, files.of(one), workloads).front();
      const double compute = least_step_seconds(point);
      const double communication = point.strategy->least_communication_seconds(point.job);
      EXPECT_GT(compute, 0);
      EXPECT_LE(compute, c.verdict.step) << c.strategy << " " << c.micro;
      EXPECT_LE(communication, c.verdict.step) << c.strategy << " " << c.micro;
      EXPECT_EQ(communication > 0, c.family == "FSDP" && c.gpus > 1) << c.strategy;
      closest = std::max(closest, communication / c.verdict.step);
    }
    EXPECT_GT(closest, 0.9) << model;  // the bound is close enough to be useful
  }
}

// If the nodes have a faster device than the platform, the platform's device gives no lower bound.
TEST_F(Recommend, LeastTimesHoldOnOtherDevices) {
  const Scenario scenario = read_scenario(folder_.write(
      "s.yaml",
      "name: t\nmodel: llama3.2-1b\nplatform: dgx-a100-80gb\ngpus: 8\nbatch: {per_gpu: 4}\n"
      "input: {sequence: 2048}\nprecision: amp-bf16\nstrategies: [ddp]\nsimulation: {steps: 2}\n"
      "stragglers: {other_devices: [{device: h100-sxm5-80gb, nodes: 0}]}\n"));
  const Point point = expand(scenario).front();
  const double step = mean(simulate({point}).front().step_seconds);
  EXPECT_LT(step, point.compute_seconds);
  EXPECT_LE(least_step_seconds(point), step);
}

TEST_F(Recommend, WhatIsLeftOutUnsimulatedWouldNotHaveBeenBetter) {
  const Recommendation quick = answer({});
  const Recommendation whole = answer({.by = RankBy::memory});
  EXPECT_LT(quick.ranked.size(), whole.ranked.size());
  double cheapest = std::numeric_limits<double>::infinity(), shortest = cheapest;
  for (const Candidate& c : whole.ranked) {
    cheapest = std::min(cheapest, c.verdict.dollars);
    shortest = std::min(shortest, c.verdict.total);
  }
  EXPECT_EQ(least(quick, RankBy::cost), cheapest);
  EXPECT_EQ(quick.ranked[quick.pareto.front()].verdict.total, shortest);
  std::size_t counted = quick.ranked.size();
  for (const auto& [why, count] : quick.left_out) counted += count;
  EXPECT_EQ(counted, quick.candidates);
}

// A part of a node costs as much as the whole node, and the faster of equally expensive runs wins.
// The data loader sets the pace here: twice the GPUs need half the time.
TEST_F(Recommend, PricesWholeNodesAndTakesTheFasterOfEqualPrices) {
  const std::string text = std::string(training_run) + "data_loading: {samples_per_second: 100}\n";
  const RecommendOptions options{.gpus = "1,2,4,8"};
  const Recommendation found = answer(options, text);
  for (const Candidate& c : found.ranked) {
    EXPECT_EQ(c.verdict.rented, c.gpus <= 4 ? 4 : 8);
    const double rate = c.verdict.dollars / c.verdict.total;
    EXPECT_NEAR(rate / c.verdict.rented, 5.672 / 4 / 3600, 1e-9) << c.gpus;
  }
  EXPECT_EQ(found.ranked.front().gpus, 8);
  EXPECT_THAT(recommendation_text(found, "s.yaml"), HasSubstr("costs count whole nodes"));
  const Recommendation own = answer(options, text + "price_per_gpu_hour: 1 USD/h\n");
  for (const Candidate& c : own.ranked) EXPECT_EQ(c.verdict.rented, c.gpus);
  EXPECT_EQ(own.ranked.front().gpus, 8);
  EXPECT_THAT(recommendation_text(own, "s.yaml"), Not(HasSubstr("costs count whole nodes")));
}

// A strategy that is harder to run is passed over if its gain is below the error between two
// predictions; the answer names it.
TEST_F(Recommend, TheSimplerOfWhatCannotBeToldApartIsFirst) {
  const std::string text =
      "name: t\nmodel: vgg16\ndataset: {samples: 1.28M, epochs: 90}\nbatch: {global: 1024}\n"
      "precision: amp-fp16\nplatform: p4d.24xlarge\ngpus: "
      "[8]\noptimizer: {name: sgd, momentum: 0.9}\n"
      "simulation: {steps: 8}\nstrategies: [ddp]\n";
  const Recommendation found = answer({}, text);
  const Candidate& first = found.ranked.front();
  EXPECT_EQ(first.strategy, "ddp");
  ASSERT_TRUE(first.passed_over);
  const Candidate& passed = found.ranked[1];
  EXPECT_EQ(passed.strategy, first.passed_over->strategy);
  EXPECT_EQ(passed.family, "FSDP");
  EXPECT_EQ(passed.verdict.total, least(found, RankBy::time));
  EXPECT_NEAR(first.passed_over->gain, 1 - passed.verdict.total / first.verdict.total, 1e-12);
  EXPECT_LT(first.passed_over->gain, first.passed_over->told);
  EXPECT_LT(first.passed_over->told, 0.15);
  // DDP uses autocast, FSDP's mixed precision does not.
  EXPECT_FALSE(first.verdict.without_autocast);
  EXPECT_TRUE(passed.verdict.without_autocast);
  const std::string told =
      std::regex_replace(recommendation_text(found, "s.yaml"), std::regex("\\s+"), " ");
  EXPECT_THAT(told, HasSubstr("simpler than " + passed.strategy + ", which is "));
  EXPECT_THAT(told, HasSubstr("% faster (without autocast): two predictions tell"));
  // In a single precision there are no numerics to name, and memory has no error between
  // predictions.
  std::string fp32 = text;
  fp32.replace(fp32.find("amp-fp16"), 8, "fp32");
  for (const Candidate& c : answer({}, fp32).ranked) EXPECT_FALSE(c.verdict.without_autocast);
  for (const Candidate& c : answer({.by = RankBy::memory}, text).ranked) {
    EXPECT_FALSE(c.passed_over);
  }
}

// A gain above the error between two predictions is taken, and the answer names its numerics.
TEST_F(Recommend, AGainThatCanBeToldIsTaken) {
  const Recommendation found =
      answer({},
             "name: t\nmodel: convnext_tiny\ndataset: {samples: 1.28M, epochs: 90}\n"
             "batch: {global: 1024}\nprecision: amp-fp16\nmemory_format: channels_last\n"
             "platform: g5.12xlarge\ngpus: [4]\nsimulation: {steps: 8}\nstrategies: [ddp]\n");
  EXPECT_EQ(found.ranked.front().family, "FSDP");
  EXPECT_THAT(std::regex_replace(recommendation_text(found, "s.yaml"), std::regex("\\s+"), " "),
              HasSubstr("without autocast, so that normalisation runs in half precision"));
}

// Hybrid sharding within a node differs from full sharding on several whole nodes only, so
// `recommend` tries it there only.
TEST_F(Recommend, NoCandidateIsRefused) {
  const std::string file = folder_.write("s.yaml", training_run);
  InputFiles files;
  const Candidates all = candidates_of(read_scenario(file), {.gpus = "1,4,8,16,32,64"}, files);
  EXPECT_THAT(all.meshes, IsEmpty());  // the network does not state how it may be divided
  std::set<int> hybrid;
  for (const Candidate& c : all.plain) {
    if (c.strategy.starts_with("fsdp2 hybrid_shard")) hybrid.insert(c.gpus);
  }
  EXPECT_THAT(hybrid, testing::ElementsAre(8, 16, 32, 64));
  std::string text = training_run;
  text.replace(text.find("{global: 64}"), 12, "{global: 96}");
  const Recommendation found = answer({.gpus = "2,6,12", .by = RankBy::memory}, text);
  for (const auto& [why, count] : found.left_out) EXPECT_THAT(why, Not(HasSubstr("cannot be")));
  EXPECT_GT(found.ranked.size(), 50U);
}

TEST_F(Recommend, LimitsAreKept) {
  const Recommendation free = answer({});
  const double total = free.ranked.front().verdict.total;
  RecommendOptions limits;
  limits.platforms = "g5.12xlarge,p4d.24xlarge";
  limits.deadline = 0.7 * total;
  limits.memory = 6.0 * 1024 * 1024 * 1024;
  const Recommendation kept = answer(limits);
  ASSERT_FALSE(kept.ranked.empty());
  for (const Candidate& c : kept.ranked) {
    EXPECT_LE(c.verdict.total, limits.deadline);
    EXPECT_LE(c.verdict.device, limits.memory);
  }
  EXPECT_EQ(kept.by, RankBy::cost);
  RecommendOptions budget;
  budget.budget = 1.2 * free.ranked.front().verdict.dollars;
  const Recommendation afforded = answer(budget);
  EXPECT_EQ(afforded.by, RankBy::time);
  for (const Candidate& c : afforded.ranked) EXPECT_LE(c.verdict.dollars, budget.budget);
  RecommendOptions impossible;
  impossible.deadline = 1;
  EXPECT_THAT(answer(impossible).ranked, IsEmpty());
}

TEST_F(Recommend, NothingOnTheFrontIsWorseInEverything) {
  const Recommendation found = answer({});
  for (const std::size_t i : found.pareto) {
    const Verdict& a = found.ranked[i].verdict;
    for (const Candidate& other : found.ranked) {
      const Verdict& b = other.verdict;
      EXPECT_FALSE(b.total < a.total && b.dollars < a.dollars && b.device < a.device);
    }
  }
}

TEST_F(Recommend, EachIsASweepOfOnePoint) {
  const Recommendation found = answer({.platforms = "g5.12xlarge,p4d.24xlarge"});
  for (const std::size_t i : {std::size_t{0}, found.ranked.size() / 2, found.ranked.size() - 1}) {
    const Candidate& c = found.ranked[i];
    const auto rows = swept(c.settings);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_NEAR(rows[0]["step_s"], c.verdict.step, 1e-8 * c.verdict.step);
    const double in_use = c.verdict.dollars * c.gpus / c.verdict.rented;
    EXPECT_NEAR(rows[0]["dollars"], in_use, 1e-8 * in_use);
    EXPECT_EQ(rows[0]["gpus"], c.gpus);
  }
}

TEST_F(Recommend, TheMatrixIsTheStudysWithTheseNumbers) {
  const Recommendation found = answer({});
  ASSERT_EQ(found.matrix.size(), 6U);
  for (const MatrixColumn& column : found.matrix) {
    EXPECT_GE(column.fastest.verdict.device, column.least_memory);
    EXPECT_GE(column.fastest.verdict.dollars, column.least_dollars);
    EXPECT_EQ(column.fastest.family, column.family);
    const bool waits = column.family == "DDP" || column.family == "FSDP";
    EXPECT_GT(column.uneven, waits ? 1.01 : 0.9);
    EXPECT_EQ(column.fastest.verdict.staleness > 0, column.family == "async server");
  }
  const std::string text = recommendation_text(found, "s.yaml");
  EXPECT_THAT(text, HasSubstr("Recommended: "));
  EXPECT_THAT(text, HasSubstr("lockstep sweep s.yaml --set gpus="));
  EXPECT_THAT(text, HasSubstr("accuracy: age of gradients"));
}

// If a slow GPU costs nothing, the matrix names the limit instead, and never shows a gain from a
// slow GPU.
TEST_F(Recommend, AFigureOfNothingNamesItsLimit) {
  const std::string loader = "data_loading: {samples_per_second: 40}\n";
  const Recommendation found = answer({.gpus = "4"}, training_run + loader);
  for (const MatrixColumn& column : found.matrix) {
    EXPECT_LT(column.uneven, 1.005) << column.fastest.strategy;
    EXPECT_EQ(column.limit, "data loading rate") << column.fastest.strategy;
  }
  const std::string text = recommendation_text(found, "s.yaml");
  EXPECT_THAT(text, HasSubstr("+0 % (data loading rate)"));
  EXPECT_THAT(text, Not(HasSubstr("-0 %")));
  EXPECT_THAT(text, HasSubstr("(in brackets: the bottleneck"));
  Recommendation faster = found;  // a slow GPU may change how links are shared
  faster.matrix.front().uneven = 0.97;
  EXPECT_THAT(recommendation_text(faster, "s.yaml"), Not(HasSubstr("-3 %")));
  for (const MatrixColumn& column : answer({.gpus = "4"}).matrix) {
    EXPECT_EQ(column.limit.empty(), column.uneven >= 1.005) << column.fastest.strategy;
  }
}

// Asynchronous servers learn less in this test. The real training is replaced by a function that
// reports its calls.
TEST_F(Recommend, WhatDoesNotLearnEnoughIsLeftOut) {
  const std::string text = std::string(training_run) + "convergence: {data: fashion-mnist}\n";
  std::vector<std::string> trained;
  RecommendOptions options;
  options.min_accuracy = 0.85;
  options.by = RankBy::time;
  options.prepare = [&](const Scenario& candidate) {
    const auto* server = std::get_if<ParameterServerOptions>(&candidate.strategies.front().options);
    const bool asynchronous = server != nullptr && server->consistency == Consistency::async;
    return PreparedTraining{asynchronous ? "async" : "sync", [&trained, asynchronous] {
                              trained.push_back(asynchronous ? "async" : "sync");
                              Accuracy accuracy;
                              accuracy.last = asynchronous ? 0.7 : 0.9;
                              return TrainedPoint{accuracy, {"of both", trained.back()}};
                            }};
  };
  const Recommendation found = answer(options, text);
  ASSERT_FALSE(found.ranked.empty());
  for (const Candidate& c : found.ranked) {
    EXPECT_NE(c.family, "async server");
    ASSERT_TRUE(c.verdict.accuracy);
    EXPECT_EQ(c.verdict.accuracy->mean, 0.9);
  }
  // Candidates with equal learning are trained once, and common remarks appear once.
  EXPECT_THAT(trained, UnorderedElementsAre("sync", "async"));
  EXPECT_EQ(found.trainings, 2U);
  EXPECT_THAT(found.warnings, UnorderedElementsAre("of both", "sync", "async"));

  // No candidate reaches the accuracy: all are tried, none is recommended, and the reason names
  // them.
  trained.clear();
  options.min_accuracy = 0.95;
  const Recommendation none = answer(options, text);
  EXPECT_TRUE(none.ranked.empty());
  EXPECT_THAT(trained, UnorderedElementsAre("sync", "async"));
  std::string reasons;
  for (const auto& [reason, count] : none.left_out) reasons += reason + "\n";
  EXPECT_THAT(reasons, HasSubstr("below 95.0 %: "));

  // Not more trainings than allowed.
  trained.clear();
  options.most_trainings = 1;
  EXPECT_EQ(answer(options, text).trainings, 1U);
  EXPECT_EQ(trained.size(), 1U);
}

TEST_F(Recommend, NothingIsTrainedWhenTheShortlistIsFull) {
  RecommendOptions options;
  options.min_accuracy = 0.5;
  std::size_t trained = 0;
  options.prepare = [&](const Scenario&) {
    return PreparedTraining{std::to_string(trained), [&trained]() -> TrainedPoint {
                              ++trained;
                              Accuracy accuracy;
                              accuracy.last = 0.9;
                              return {accuracy, {}};
                            }};
  };
  const std::string text = std::string(training_run) + "convergence: {data: fashion-mnist}\n";
  const Recommendation found = answer(options, text);
  EXPECT_EQ(shortlist(found.ranked).size(), most_shortlisted);
  EXPECT_GT(trained, 1U);
  EXPECT_LE(trained, most_shortlisted);
  EXPECT_GT(found.left_out.at("not trained: the shortlist was full"), 0U);
}

TEST_F(Recommend, TheFrontKnowsAccuracy) {
  RecommendOptions options;
  options.min_accuracy = 0.5;
  options.gpus = "2";  // each family has one candidate, so all are trained
  options.prepare = [](const Scenario& candidate) {
    const auto* server = std::get_if<ParameterServerOptions>(&candidate.strategies.front().options);
    const Consistency consistency = server != nullptr ? server->consistency : Consistency::elastic;
    return PreparedTraining{std::to_string(static_cast<int>(consistency)),
                            [consistency]() -> TrainedPoint {
                              if (consistency == Consistency::sync) return {std::nullopt, {}};
                              Accuracy accuracy;
                              accuracy.last = consistency == Consistency::async ? 0.9 : 0.6;
                              return {accuracy, {}};
                            }};
  };
  const std::string text = std::string(training_run) + "convergence: {data: fashion-mnist}\n";
  const Recommendation found = answer(options, text);
  // A training whose processes failed says nothing about accuracy.
  EXPECT_GT(found.left_out.at("could not be trained"), 0U);
  const auto less_accurate = [](const Verdict& a, const Verdict& b) {
    return a.accuracy->mean < b.accuracy->mean;
  };
  EXPECT_GT(on_the_front_for(found, less_accurate), 0U);
}

// At the same price an L4 is slower than an A100 and therefore more expensive, but draws a fifth of
// its power.
TEST_F(Recommend, TheFrontKnowsEnergy) {
  const Recommendation found =
      answer({.gpus = "1", .platforms = "g6.12xlarge,p4d.24xlarge"},
             std::string(training_run) + "energy: {}\nprice_per_gpu_hour: 1 USD/h\n");
  const auto draws_more = [](const Verdict& a, const Verdict& b) {
    return most_energy(a) > most_energy(b);
  };
  EXPECT_GT(on_the_front_for(found, draws_more), 0U);
}

TEST_F(Recommend, LeastEnergyIsFirstWhereItIsAskedFor) {
  const std::string text = std::string(training_run) + "energy: {carbon_intensity: 400}\n";
  RecommendOptions options;
  options.by = RankBy::energy;
  const Recommendation found = answer(options, text);
  ASSERT_FALSE(found.ranked.empty());
  double before = 0;
  for (const Candidate& c : found.ranked) {
    ASSERT_TRUE(c.verdict.energy);
    EXPECT_TRUE(c.verdict.energy->carbon_kilograms);
    EXPECT_GE(c.verdict.energy->kilowatt_hours.high, before);
    before = c.verdict.energy->kilowatt_hours.high;
  }
  EXPECT_THAT(recommendation_text(found, "s.yaml"), HasSubstr("kWh"));
}

// Commands stay on one line, so that they can be copied; all other lines fit.
TEST_F(Recommend, FitsATerminalOfEightyColumns) {
  std::string text = std::string(training_run) + "energy: {carbon_intensity: 400}\n";
  const Recommendation found = answer({.platforms = "g5.12xlarge,p4d.24xlarge"}, text);
  std::istringstream lines(recommendation_text(found, "s.yaml"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  lockstep sweep ") != std::string::npos) continue;
    EXPECT_LE(line.size(), 80U) << line;
  }
}

// The recipe recomputes single operators; the search also tries to recompute whole blocks.
TEST_F(Recommend, TriesMoreRecomputationThanTheScenarioAsksFor) {
  const std::string file =
      folder_.write("recipe.yaml",
                    "name: recipe\nrecipe: torchtitan\nmodel: llama3-70b\ninput: {sequence: 8192}\n"
                    "dataset: {tokens: 1T}\nbatch: {per_gpu: 1}\nplatform: dgx-h100\ngpus: [64]\n"
                    "simulation: {steps: 4}\nstrategies: [fsdp]\n"
                    "recommend: {parallel: {tensor: 1, pipeline: 1}}\n");
  const Recommendation answer = recommend(file, {});
  ASSERT_FALSE(answer.ranked.empty());
  EXPECT_THAT(answer.ranked.front().strategy, HasSubstr("all recomputed"));
}

// 32.8e9 parameters of 16 bytes do not fit into 192 GiB of host memory, for any number of GPUs.
TEST_F(Recommend, SaysThatTheHostIsTooSmall) {
  const std::string file = folder_.write(
      "host.yaml",
      "name: host\nmodel: qwen2.5-32b\ninput: {sequence: 2048}\ndataset: {samples: 50k}\n"
      "batch: {per_gpu: 1}\nprecision: amp-bf16\noptimizer: {name: adamw}\n"
      "platform: g5.12xlarge\ngpus: [4]\nsimulation: {steps: 4}\nstrategies: [fsdp]\n");
  const Recommendation answer = recommend(file, {});
  EXPECT_TRUE(answer.ranked.empty());
  EXPECT_EQ(answer.left_out.count("needs more memory than a host has"), 1U);
}

// --json and --csv have the whole answer, in the form of the schema.
TEST_F(Recommend, ProgramsReadTheSameAnswer) {
  const Recommendation found =
      answer({.platforms = "g5.12xlarge,p4d.24xlarge"},
             std::string(training_run) + "energy: {carbon_intensity: 400}\n");
  const Json json = Json::parse(recommendation_json(found));
  EXPECT_EQ(schema_faults(Json::parse(recommendation_schema()), json), "");
  ASSERT_EQ(json["ranked"].size(), found.ranked.size());
  const Candidate& first = found.ranked.front();
  EXPECT_EQ(json["ranked"][0]["strategy"], first.strategy);
  EXPECT_EQ(json["ranked"][0]["dollars"], first.verdict.dollars);
  EXPECT_EQ(json["ranked"][0]["settings"], Json(first.settings));
  EXPECT_EQ(json["pareto"], Json(found.pareto));
  EXPECT_EQ(json["matrix"].size(), found.matrix.size());
  std::size_t left_out = 0;
  for (const Json& reason : json["left_out"]) left_out += reason["candidates"].get<std::size_t>();
  EXPECT_EQ(left_out + found.ranked.size(), json["candidates"].get<std::size_t>());
  const std::string csv = recommendation_csv(found);
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')),
            found.ranked.size() + 1);
  EXPECT_THAT(csv, HasSubstr("rank,platform,gpus,rented_gpus,strategy,"));
  EXPECT_THAT(csv, HasSubstr("\n1," + first.platform + "," + std::to_string(first.gpus) + ","));
}

// Platforms that the scenario lists are searched, and --set changes the scenario of all candidates.
TEST_F(Recommend, ListsOfPlatformsAndSettingsAreTheQuestion) {
  std::string text = training_run;
  text.replace(text.find("g5.12xlarge"), 11, "[g5.12xlarge, p4d.24xlarge]");
  const auto same = [](const Recommendation& a, const Recommendation& b) {
    return recommendation_csv(a) == recommendation_csv(b);
  };
  const RecommendOptions two{.gpus = "4", .platforms = "g5.12xlarge,p4d.24xlarge"};
  EXPECT_TRUE(same(answer({.gpus = "4"}, text), answer(two)));
  EXPECT_TRUE(same(answer({.gpus = "4", .platforms = "g5.12xlarge"}, text), answer({.gpus = "4"})));
  std::string larger = training_run;
  larger.replace(larger.find("{global: 64}"), 12, "{global: 128}");
  const std::vector<std::string> settings{"batch.global=128", "gradient_clipping=1"};
  const Recommendation changed = answer({.settings = settings, .gpus = "4"});
  EXPECT_TRUE(same(changed, answer({.gpus = "4"}, larger + "gradient_clipping: 1\n")));
  // Settings that a candidate's name contains are not repeated.
  const std::string told = recommendation_text(changed, "s.yaml", settings);
  EXPECT_THAT(told, HasSubstr("lockstep sweep s.yaml --set gradient_clipping=1 --set gpus=4"));
  EXPECT_THAT(told, Not(HasSubstr("batch.global")));
}

// One of two platforms has no price: the lowest price of a family is the other's.
TEST_F(Recommend, APlatformWithoutPriceHidesNoPrice) {
  const Recommendation found = answer({.platforms = "g5.12xlarge,dgx-a100-80gb"});
  ASSERT_FALSE(found.matrix.empty());
  for (const MatrixColumn& column : found.matrix) EXPECT_GT(column.least_dollars, 0);
}

TEST_F(Recommend, WhatCannotBeAskedIsRefused) {
  const auto wrong = [&](const RecommendOptions& options, const std::string& text) {
    return refusal([&] { answer(options, text); });
  };
  std::string endless = training_run;
  endless.replace(endless.find("dataset: {samples: 1.28M, epochs: 90}\n"), 38, "");
  EXPECT_THAT(wrong({}, endless), HasSubstr("dataset: is missing"));
  EXPECT_THAT(wrong({}, endless + "dataset: {time: 1 h}\n"), HasSubstr("dataset: gives the time"));
  // A number of steps means the same data only at the same batch.
  const std::string steps = endless + "dataset: {steps: 1000}\n";
  EXPECT_FALSE(answer({}, steps).ranked.empty());
  std::string weak = steps;
  weak.replace(weak.find("{global: 64}"), 12, "{per_gpu: 16}");
  EXPECT_THAT(wrong({}, weak), HasSubstr("dataset: counts steps"));
  EXPECT_THAT(wrong({.platforms = "g5.12xlarge,p9"}, training_run),
              HasSubstr("unknown platform 'p9'"));
  EXPECT_THAT(wrong({.gpus = "1,x"}, training_run), HasSubstr("'x' is not a number"));
  std::string unpriced = training_run;
  unpriced.replace(unpriced.find("g5.12xlarge"), 11, "dgx-a100-80gb");
  RecommendOptions budget;
  budget.budget = 100;
  EXPECT_THAT(wrong(budget, unpriced), HasSubstr("has no price"));
  EXPECT_THAT(wrong({.min_accuracy = 0.8}, training_run), HasSubstr("convergence: is missing"));
  EXPECT_THAT(wrong({.by = RankBy::energy}, training_run), HasSubstr("energy: is missing"));
}

}  // namespace
}  // namespace lockstep::recommend_test
