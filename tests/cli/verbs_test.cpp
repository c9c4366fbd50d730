// Does each verb answer, with the promised exit code and the same bytes every time?
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/data.hpp"
#include "process.hpp"

namespace lockstep::verbs_test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string shipped(const std::string& name) {
  return data_folder("scenarios/") + name;
}

TEST(Run, JsonIsOneDocumentAndCsvOneTable) {
  const Outcome json = lockstep({"run", shipped("ovi2026/vgg16.yaml"), "--json"});
  EXPECT_EQ(json.code, 0);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["predictions"].size(), 6U);
  const Outcome csv = lockstep({"run", "--csv", shipped("ovi2026/vgg16.yaml")});
  EXPECT_EQ(csv.code, 0);
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 7);
}

TEST(Run, TheSameBytesEveryTimeAndWithAnyNumberOfJobs) {
  const std::string file = shipped("ovi2026/ps_vgg16.yaml");
  const std::string once = lockstep({"run", "--json", file}).out;
  EXPECT_NE(once, "");
  EXPECT_EQ(lockstep({"run", "--json", file}).out, once);
  EXPECT_EQ(lockstep({"run", "--json", "-j1", file}).out, once);
  EXPECT_EQ(lockstep({"run", "--json", "-j4", file}).out, once);
}

TEST(Run, SetIsAsIfTheFileSaidSo) {
  const std::string file = test_folder().write("set.yaml", scenario_text("gpus: [1]\n"));
  const std::string as_file = test_folder().write(
      "as_set.yaml", scenario_text("gpus: [1, 2]\nbatch: {per_gpu: 16}\nstrategies: [fsdp]\n"));
  const Outcome set = lockstep({"run", file, "--csv", "--set", "gpus=1,2", "--set",
                                "batch={per_gpu: 16}", "--set", "strategies=[fsdp]"});
  EXPECT_EQ(set.out, lockstep({"run", as_file, "--csv"}).out);
  const Outcome wrong = lockstep({"run", file, "--set", "gpu=2"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, StartsWith("--set gpu=2:1:1: gpu: "));
}

// Every verb that reads a scenario accepts --set, and answers as for a file with these values.
TEST(Settings, AreTakenByEveryVerb) {
  const std::string file =
      test_folder().write("verbs.yaml", scenario_text("strategies: [ddp, fsdp]\n"));
  const std::string as_file =
      test_folder().write("as_verbs.yaml", scenario_text("strategies: [ddp, fsdp]\ngpus: [4]\n"));
  for (const char* verb : {"compare", "explain", "run"}) {
    const Outcome set = lockstep({verb, file, "--csv", "--set", "gpus=4"});
    EXPECT_EQ(set.code, 0) << verb << set.err;
    EXPECT_EQ(set.out, lockstep({verb, as_file, "--csv"}).out) << verb;
  }
  const Outcome checked = lockstep({"check", file, "--json", "--set", "gpus=[2,4]"});
  EXPECT_EQ(nlohmann::json::parse(checked.out)[0]["points"][3]["gpus"], 4) << checked.err;
  const Outcome page = lockstep({"report", file, "--set", "gpus=4", "-o", "-"});
  EXPECT_THAT(page.out, AllOf(HasSubstr("# --set gpus=4"), HasSubstr("ddp on 4 GPUs")));
}

// The JSON has the same figures as the text.
TEST(Json, OfCompareExplainAndCheckHasTheFigures) {
  const std::string file =
      test_folder().write("json.yaml", scenario_text("strategies: [ddp, fsdp]\ngpus: [1, 4]\n"));
  const auto run = nlohmann::json::parse(lockstep({"run", file, "--json"}).out)["predictions"];
  const auto compared = nlohmann::json::parse(lockstep({"compare", file, "--json"}).out);
  ASSERT_EQ(compared.size(), 2U);
  const double ddp = run[1]["samples_per_second"], fsdp = run[3]["samples_per_second"];
  EXPECT_EQ(compared[1]["gpus"], 4);
  EXPECT_DOUBLE_EQ(compared[1]["speedup"], fsdp / ddp);
  double more = 0;
  for (const auto& [part, seconds] : compared[1]["more_seconds_per_sample"].items()) {
    more += seconds.get<double>();
  }
  EXPECT_NEAR(more, 1 / fsdp - 1 / ddp, 0.02 / ddp);  // small parts are left out of the sum
  const auto why = nlohmann::json::parse(lockstep({"explain", file, "--json"}).out);
  ASSERT_EQ(why["points"].size(), 4U);
  EXPECT_EQ(why["differences"].size(), 3U);
  double step = 0;
  for (const auto& [part, seconds] : why["points"][3]["step_parts_seconds"].items()) {
    step += seconds.get<double>();
  }
  EXPECT_NEAR(step, run[3]["step_seconds"].get<double>(), 1e-9);
  EXPECT_FALSE(why["points"][3]["sensitivities"].empty());
  const auto checked = nlohmann::json::parse(lockstep({"check", file, "--json"}).out);
  EXPECT_EQ(checked[0]["points"][3]["device_bytes"], run[3]["memory"]["device_bytes"]);
  EXPECT_EQ(checked[0]["points"][3]["fits"], true);
}

// A scenario can come through a pipe, also for verbs that read it twice.
TEST(StandardInput, IsAScenario) {
  const std::string file = test_folder().write("piped.yaml", scenario_text("gpus: [1, 2]\n"));
  const std::string program = "\"" LOCKSTEP_PROGRAM "\" ", from = " - < \"" + file + "\"";
  const Outcome piped = shell(program + "run --csv" + from);
  EXPECT_EQ(piped.out, lockstep({"run", file, "--csv"}).out) << piped.err;
  const Outcome swept = shell(program + "sweep --set batch.per_gpu=8,16" + from);
  EXPECT_EQ(std::count(swept.out.begin(), swept.out.end(), '\n'), 4) << swept.err;
  EXPECT_EQ(shell(program + "report -o -" + from).code, 0);
  const Outcome wrong = shell("echo 'modle: lenet5' | " + program + "check -");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("-:1:1: modle: "));
}

TEST(Run, NothingThatFitsIsExitCodeThree) {
  const std::string some = test_folder().write(
      "some.yaml", scenario_text("model: vgg16\nplatform: g5.xlarge\nbatch: {micro: 600}\n"));
  const Outcome outcome = lockstep({"run", some});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("would fit: micro-batch"));
  EXPECT_EQ(lockstep({"run", shipped("ovi2026/vgg16.yaml")}).code, 0);
}

TEST(Fits, NamesTheLeastChangesAndEndsWithThreeWhereNothingFits) {
  const std::string file = shipped("does_not_fit.yaml");
  const Outcome text = lockstep({"fits", file});
  EXPECT_EQ(text.code, 0) << text.err;  // FSDP fits
  EXPECT_THAT(text.out, AllOf(HasSubstr("ddp on 8 GPUs: does not fit: "), HasSubstr("would fit: "),
                              HasSubstr("largest micro-batch: "), HasSubstr("fewest GPUs: ")));
  const Outcome json = lockstep({"fits", file, "--json", "--set", "strategies=[ddp]"});
  EXPECT_EQ(json.code, 3);
  const auto points = nlohmann::json::parse(json.out)["points"];
  ASSERT_EQ(points.size(), 1U);
  EXPECT_FALSE(points[0]["fits"]);
  ASSERT_FALSE(points[0]["least_changes"].empty());
  const auto& job = points[0]["least_changes"][0];
  EXPECT_FALSE(job["changes"].empty());
  EXPECT_EQ(job["micro_batch"].get<int>() * job["accumulation"].get<int>() * job["gpus"].get<int>(),
            job["global_batch"].get<int>());
  EXPECT_TRUE(points[0]["largest_micro_batch"].is_null());
  EXPECT_EQ(lockstep({"fits", file, "--set", "batch.per_gpus=1"}).code, 2);
}

TEST(Check, TellsWhatFits) {
  const Outcome outcome = lockstep({"check", shipped("ovi2026/vgg16.yaml")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("vgg16.yaml: ok"));
}

TEST(Check, OptionsWithoutEffectAreToldAsByRun) {
  const std::string idle =
      test_folder().write("idle.yaml", scenario_text("activation_checkpointing: true\n"));
  for (const char* verb : {"check", "run"}) {
    const Outcome outcome = lockstep({verb, idle});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.err,
                HasSubstr("note: activation_checkpointing has no effect: lenet5 has no "
                          "repeated blocks\n"));
  }
}

TEST(Check, NothingThatFitsIsExitCodeThreeAsForRun) {
  const std::string big = test_folder().write(
      "big.yaml", scenario_text("model: vgg16\nplatform: g5.xlarge\nbatch: {micro: 600}\n"));
  const Outcome outcome = lockstep({"check", big});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("big.yaml: nothing fits into memory"));
  // One scenario that does not fit is enough for exit code 3, in any order; a file that cannot be
  // read is exit code 2.
  const std::string good = shipped("ovi2026/vgg16.yaml");
  EXPECT_EQ(lockstep({"check", big, good}).code, 3);
  EXPECT_EQ(lockstep({"check", good, big}).code, 3);
  const std::string bad = test_folder().write("bad.yaml", scenario_text("platform: nowhere\n"));
  EXPECT_EQ(lockstep({"check", big, bad}).code, 2);
  EXPECT_EQ(lockstep({"check", bad, big}).code, 2);
}

TEST(Check, IsDoneWhereAPartFits) {
  const Outcome outcome =
      lockstep({"check", shipped("study_which_strategy_for_a_bigger_model.yaml")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("model.yaml: ok"));
  EXPECT_THAT(outcome.out, HasSubstr("NO"));
}

// The data from which the scripts of a report draw.
nlohmann::json drawn_by(const std::string& page) {
  const std::size_t begin = page.find("id=\"data\">") + 10;
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Report, HasAChapterForEachAlternative) {
  const Outcome one = lockstep({"report", shipped("alternatives/which_machine.yaml"), "-o", "-"});
  EXPECT_EQ(one.code, 0) << one.err;
  const auto data = drawn_by(one.out);
  EXPECT_EQ(data["chapters"].size(), 8u);
  for (const char* chosen :
       {"(batch.per_gpu 128, platform g5.48xlarge)", "(batch.per_gpu 256, platform p5.48xlarge)"}) {
    EXPECT_TRUE(std::any_of(
        data["chapters"].begin(), data["chapters"].end(),
        [&](const auto& chapter) {
          return chapter["result"]["scenario"].template get<std::string>().ends_with(chosen);
        }))
        << chosen;
  }
  for (const auto& chapter : data["chapters"]) EXPECT_FALSE(chapter["timelines"].empty());
}

// As in `run` of the same file, each possible alternative has its answer, and each impossible one
// its reason.
TEST(Report, AnAlternativeThatCannotBeIsARow) {
  const std::string text = scenario_text("gpus: [8]\nplatform: [a100-sxm4-80gb-x1, g5.48xlarge]\n");
  const std::string file = test_folder().write("alternatives.yaml", text);
  const Outcome ran = lockstep({"run", file}), page = lockstep({"report", file, "-o", "-"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(page.code, ran.code);
  EXPECT_EQ(page.err, ran.err);
  EXPECT_THAT(page.err, HasSubstr("in the alternative platform: a100-sxm4-80gb-x1\n"));
  const auto data = drawn_by(page.out);
  EXPECT_EQ(data["chapters"].size(), 1u);
  const auto& refused = data["comparison"]["refused"];
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0]["values"], nlohmann::json({"a100-sxm4-80gb-x1"}));
  EXPECT_THAT(refused[0]["reason"].get<std::string>(),
              HasSubstr("8 GPUs, but a100-sxm4-80gb-x1 has at most 1"));
}

// If no alternative is possible, no page is written.
TEST(Report, OfNothingThatCanBeIsNone) {
  const std::string file = test_folder().write(
      "none.yaml", scenario_text("gpus: [8]\nplatform: [a100-sxm4-80gb-x1, v100-sxm2-16gb-x1]\n"));
  const Outcome ran = lockstep({"run", file}), page = lockstep({"report", file, "-o", "-"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(page.code, 2);
  EXPECT_EQ(page.out, "");
  EXPECT_EQ(page.err, ran.err);
}

TEST(Report, IsOnePageOfAChapterPerScenario) {
  const std::string page = test_folder().write("report.html", "");
  const Outcome one = lockstep(
      {"report", shipped("ovi2026/vgg16.yaml"), shipped("ovi2026/ps_resnet50.yaml"), "-o", page});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "");
  EXPECT_EQ(one.err, "wrote " + page + "\n");
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_LT(text.str().size(), 1'000'000U);
  const auto data = drawn_by(text.str());
  ASSERT_EQ(data["chapters"].size(), 2u);
  EXPECT_FALSE(data["chapters"][1]["tables"]["staleness"]["rows"].empty());
  for (const char* part : {"is fastest", "were measured by others", "parameter_server"}) {
    EXPECT_THAT(text.str(), HasSubstr(part));
  }
}

TEST(Report, EndsAsRunDoes) {
  const std::string page = test_folder().write("report.html", "");
  const std::string misfit = test_folder().write(
      "misfit.yaml", scenario_text("model: llama3-70b\ninput: {}\nplatform: a100-sxm4-80gb-x4\n"));
  const int expected = lockstep({"run", misfit}).code;
  EXPECT_EQ(expected, 3);
  EXPECT_EQ(lockstep({"report", misfit, "-o", page}).code, expected);
  EXPECT_EQ(lockstep({"report", shipped("ovi2026/vgg16.yaml")}).code, 2);
}

TEST(Report, SaysWhyItCannotBeWritten) {
  const std::string scenario = shipped("ovi2026/vgg16.yaml");
  // The paths are in a missing folder, on a full disk, a folder, and in a place where even root
  // cannot create a file.
  for (const auto& [path, reason] : {std::pair{"/nonexistent/report.html", "No such file"},
                                     {"/dev/full", "No space left on device"},
                                     {"/tmp", "Is a directory"},
                                     {"/proc/report.html", ""}}) {
    const Outcome outcome = lockstep({"report", scenario, "-o", path});
    EXPECT_EQ(outcome.code, 74) << path;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("cannot write ") + path + ": " + reason));
    EXPECT_THAT(outcome.err, Not(HasSubstr("wrote")));
  }
}

TEST(Report, DoesNotTakeThePlaceOfItsScenario) {
  const std::string scenario =
      test_folder().write("own.yaml", scenario_text("gpus: 2\nstrategies: [ddp]\n"));
  const Outcome outcome = lockstep({"report", scenario, "-o", scenario});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("is one of the scenarios to read"));
  EXPECT_EQ(lockstep({"check", scenario}).code, 0);
}

TEST(Report, GoesToStandardOutput) {
  const Outcome outcome = lockstep({"report", shipped("ovi2026/vgg16.yaml"), "-o", "-"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(StartsWith("<!DOCTYPE html>"), EndsWith("</html>\n")));
}

TEST(Sweep, GoesToStandardOutput) {
  const std::vector<std::string> sweep{"sweep", shipped("ovi2026/vgg16.yaml"), "--set", "gpus=1,2"};
  std::vector<std::string> printed = sweep;
  printed.insert(printed.end(), {"-o", "-"});
  const Outcome named = lockstep(printed);
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_EQ(named.out, lockstep(sweep).out);
  EXPECT_THAT(named.err, Not(HasSubstr("; in")));
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(Export, RunsToTheSameAnswer) {
  for (const char* name : {"ovi2026/vgg16.yaml", "gpt_64_gpus.yaml", "one_slow_gpu.yaml"}) {
    const Outcome text = lockstep({"export", shipped(name)});
    EXPECT_EQ(text.code, 0);
    const std::string again = test_folder().write("exported.yaml", text.out);
    EXPECT_EQ(lockstep({"export", again}).out, text.out);
    EXPECT_EQ(lockstep({"run", "--csv", again}).out, lockstep({"run", "--csv", shipped(name)}).out);
  }
}

TEST(Export, LayersSayWhatIsTrainedAndWhatEachPointCommunicates) {
  const std::string file = test_folder().write(
      "layers.yaml",
      "name: n\nmodel: resnet18\ninput: {image: [3, 32, 32], classes: 10}\nbatch: {per_gpu: 4}\n"
      "precision: fp32\nplatform: cpu-loopback-x2\ngpus: [2]\n"
      "strategies: [ddp, fsdp: {version: 2}]\n");
  const Outcome outcome = lockstep({"export", file, "--layers"});
  ASSERT_EQ(outcome.code, 0);
  const auto document = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(document["steps"].size(), 1U);  // both strategies train the same step
  const auto& step = document["steps"][0];
  EXPECT_EQ(step["samples"], 4);
  std::int64_t parameters = 0;
  for (const auto& layer : step["layers"]) {
    for (const auto& parameter : layer["parameters"]) {
      std::int64_t count = 1;
      for (const std::int64_t size : parameter["shape"]) count *= size;
      parameters += count;
    }
  }
  EXPECT_EQ(parameters, 11181642);  // torchvision's resnet18 with 10 classes
  EXPECT_EQ(step["parameter_count"], parameters);
  EXPECT_EQ(step["layers"][0]["attributes"]["stride"], 2);
  // All gradients are in one bucket. FSDP has nine units: eight blocks and the root.
  std::int64_t bucketed = 0, gathered = 0;
  for (const std::int64_t bytes : document["points"][0]["bucket_bytes"]) bucketed += bytes;
  EXPECT_EQ(bucketed, 4 * parameters);
  EXPECT_EQ(document["points"][1]["units"].size(), 9U);
  for (const auto& unit : document["points"][1]["units"]) {
    gathered += unit["gathered_bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(gathered, 4 * parameters);  // both ranks divide every first dimension without padding
}

TEST(Export, BucketsAreThoseThatAreSimulated) {
  const std::string file = test_folder().write(
      "half.yaml", scenario_text("gpus: [2]\nstrategies: [ddp: {gradient_element_size: 2 B}]\n"));
  const Outcome outcome = lockstep({"export", file, "--layers"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  std::int64_t bytes = 0;
  for (const std::int64_t one : document["points"][0]["bucket_bytes"]) bytes += one;
  EXPECT_EQ(bytes, 2 * document["steps"][0]["parameter_count"].get<std::int64_t>());
}

TEST(Compare, StrategiesOfOneScenarioAndTwoScenarios) {
  const Outcome one = lockstep({"compare", shipped("ovi2026/vgg16.yaml")});
  EXPECT_EQ(one.code, 0);
  // The text has a table in two blocks and a sentence for each row.
  const std::size_t sentences = one.out.rfind("\n\n") + 2;
  EXPECT_EQ(std::count(one.out.begin(), one.out.begin() + static_cast<long>(sentences), '\n'), 10);
  std::size_t said = 0;
  for (std::size_t at = sentences; at < one.out.size(); at = one.out.find('\n', at) + 1) {
    said += one.out[at] == ' ' ? 0 : 1;
  }
  EXPECT_EQ(said, 3u);
  const Outcome two =
      lockstep({"compare", shipped("ovi2026/vgg16.yaml"), shipped("ovi2026/convnext_large.yaml")});
  EXPECT_EQ(two.code, 0);
  EXPECT_THAT(two.out, HasSubstr("times slower"));
  // strategies in different precisions have different names
  EXPECT_THAT(one.out, HasSubstr("fsdp (torch-fp32)"));
  EXPECT_THAT(one.out, HasSubstr("both"));
  const std::string alone = test_folder().write("alone.yaml", scenario_text(""));
  EXPECT_EQ(lockstep({"compare", alone}).code, 2);
}

// A speed-up of a configuration that does not fit would be the most expensive mistake.
TEST(Compare, SaysWhatDoesNotFitAndEndsWithThree) {
  const std::string text = "model: vgg16\nplatform: g5.12xlarge\nstrategies: [ddp, fsdp]\n";
  const std::string big =
      test_folder().write("big.yaml", scenario_text(text + "batch: {micro: 600}\n"));
  const Outcome none = lockstep({"compare", big});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.out, HasSubstr("NEITHER"));
  EXPECT_THAT(none.err, HasSubstr("big.yaml: nothing fits into memory"));
  const std::string small =
      test_folder().write("small.yaml", scenario_text(text + "batch: {micro: 8}\n"));
  const Outcome some = lockstep({"compare", big, small});
  EXPECT_EQ(some.code, 3);  // one scenario is enough, as for `check`
  EXPECT_THAT(some.out, HasSubstr("only this"));
}

TEST(Explain, NothingThatFitsIsExitCodeThreeAsForRun) {
  const std::string big = test_folder().write(
      "big.yaml", scenario_text("model: vgg16\nplatform: g5.xlarge\nbatch: {micro: 600}\n"));
  const Outcome outcome = lockstep({"explain", big});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("does not fit"));
}

TEST(Explain, GivesPartsSensitivitiesAndOrigins) {
  const Outcome outcome = lockstep({"explain", shipped("ovi2026/vgg16.yaml")});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part :
       {"where the step goes", "if this changes", "Costs:", "GPU time per sample"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST(Missing, ListsWhatIsNotMeasuredWhatMattersMostFirst) {
  const Outcome outcome = lockstep(
      {"missing", test_folder().write("missing.yaml", scenario_text("gpus: 2\n")), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto document = nlohmann::json::parse(outcome.out);
  ASSERT_FALSE(document["layers"].empty());
  double share = 0, before = 1;
  for (const auto& layer : document["layers"]) {
    EXPECT_LE(layer["share"], before);
    before = layer["share"];
    share += before;
  }
  EXPECT_NEAR(share, 1, 1e-9);  // nothing is measured, so the shares are all of the step
  EXPECT_THAT(std::string(document["commands"][0]), HasSubstr("lockstep calibrate --models "));
  EXPECT_EQ(document["commands"].back(), "lockstep calibrate collectives -o FOLDER");
}

// All lines of these answers must fit a terminal, also in a pipe.
TEST(Text, HasAtMostEightyColumns) {
  for (const std::vector<std::string>& words : std::initializer_list<std::vector<std::string>>{
           {"compare", shipped("ovi2026/vgg16.yaml"), shipped("ovi2026/convnext_large.yaml")},
           {"cluster", shipped("cluster/gang_or_elastic.yaml")},
           {"run", shipped("one_slow_gpu.yaml")},
           {"run", shipped("gpt_64_gpus.yaml")}}) {
    std::istringstream lines(lockstep(words).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

// The first screen must name the question, the work of a GPU, and the reasons for missing figures.
TEST(Run, BeginsWithWhatPeopleQuote) {
  const std::string llm =
      "model: gpt2\ninput: {sequence: 512}\nplatform: dgx-h100\ngpus: [8]\nbatch: {per_gpu: 4}\n";
  const Outcome priceless =
      lockstep({"run", test_folder().write("quoted.yaml",
                                           scenario_text(llm + "dataset: {tokens: 100G}\n"))});
  EXPECT_THAT(priceless.out,
              AllOf(HasSubstr("gpt2 (124 million trained parameters, 512 tokens a sample) on "),
                    HasSubstr("tokens/s/GPU"), HasSubstr("TFLOP/s/GPU"), HasSubstr("free"),
                    HasSubstr("\nNo price: give `price_per_gpu_hour`.\n")));
  const Outcome priced =
      lockstep({"run", test_folder().write("quoted.yaml", scenario_text(llm)), "--set",
                "dataset={tokens: 100T}", "--set", "price_per_gpu_hour=2 USD/h"});
  EXPECT_THAT(priced.out,
              AllOf(testing::ContainsRegex("\\$[0-9]+,[0-9]{3}"),
                    testing::ContainsRegex("[0-9],[0-9]{3}"), Not(HasSubstr("No price"))));
  const Outcome images = lockstep({"run", test_folder().write("images.yaml", scenario_text(""))});
  EXPECT_THAT(images.out, AllOf(HasSubstr("lenet5 (61,706 trained parameters, 1x28x28 images) on "),
                                HasSubstr("No total and no price")));
  const auto json = nlohmann::json::parse(
      lockstep({"run", test_folder().write("quoted.yaml", scenario_text(llm)), "--json"}).out);
  EXPECT_EQ(json["sequence"], 512);
  EXPECT_EQ(json["parameters"], 124439808);
  const auto& p = json["predictions"][0];
  EXPECT_DOUBLE_EQ(p["tokens_per_second_per_gpu"], p["tokens_per_second"].get<double>() / 8);
  EXPECT_DOUBLE_EQ(p["free_bytes"].get<double>(), p["memory"]["usable_bytes"].get<double>() -
                                                      p["memory"]["device_bytes"].get<double>());
  const std::string csv =
      lockstep({"run", test_folder().write("quoted.yaml", scenario_text(llm)), "--csv"}).out;
  EXPECT_THAT(csv, HasSubstr("scenario,model,parameters,sequence,image,platform,"));
  EXPECT_THAT(csv, HasSubstr("gpt2,124439808,512,,"));
}

// Staleness is drawn only if it varies between updates.
TEST(Run, DrawsStaleness) {
  const std::string out = lockstep({"run", shipped("one_slow_gpu.yaml")}).out;
  const std::size_t at = out.find("How stale the updates are");
  ASSERT_NE(at, std::string::npos);
  const std::string bars = out.substr(at, out.find("\n\n", at) - at);
  EXPECT_THAT(bars, AllOf(HasSubstr("ps async"), HasSubstr("####"), Not(HasSubstr("ps sync"))));
}

TEST(List, ShowsEveryScenarioAndItsVerb) {
  const std::string csv = lockstep({"list", "scenarios", "--csv"}).out;
  EXPECT_THAT(csv, HasSubstr("scenarios/cluster/gang_or_elastic.yaml,cluster,"));
  EXPECT_THAT(csv, HasSubstr("scenarios/alternatives/which_machine.yaml,run,"));
}

TEST(List, ShowsEverythingThereIs) {
  EXPECT_THAT(lockstep({"list", "models"}).out, HasSubstr("resnet50"));
  EXPECT_THAT(lockstep({"list", "devices"}).out, HasSubstr("h100-sxm5-80gb"));
  EXPECT_THAT(lockstep({"list", "platforms"}).out, HasSubstr("p4d.24xlarge"));
  EXPECT_THAT(lockstep({"list", "scenarios"}).out, HasSubstr("ovi2026/vgg16.yaml"));
  for (const char* strategy : {"ddp", "fsdp", "parameter_server"}) {
    EXPECT_THAT(lockstep({"list", "strategies"}).out, HasSubstr(strategy));
  }
}

TEST(Cluster, AnswersInEveryFormat) {
  const std::string path = test_folder().write(
      "cluster.yaml",
      "name: two jobs\ncluster: {platform: a100-sxm4-80gb-x4, nodes: 1}\nworkloads:\n"
      "  w: {training: {model: lenet5, batch: {per_gpu: 8}, strategies: [ddp]}}\n"
      "jobs: [{workload: w, gpus: 4, duration: 1 h}, {workload: w, duration: 1 h}]\n"
      "policies: [fifo]\n");
  const Outcome text = lockstep({"cluster", path});
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out, HasSubstr("2 jobs on 1 node of a100-sxm4-80gb-x4, 4 GPUs"));
  EXPECT_THAT(text.out, HasSubstr("Which jobs gain"));
  const auto json = nlohmann::json::parse(lockstep({"cluster", path, "--json"}).out);
  EXPECT_NEAR(json["policies"][0]["queueing"]["mean_s"], 1800, 1e-6);
  EXPECT_EQ(lockstep({"cluster", path, "--csv", "-j", "2"}).out,
            lockstep({"cluster", path, "--csv"}).out);
  for (const char* verb : {"run", "check", "explain", "report", "validate", "export"}) {
    std::vector<std::string> words{verb, path};
    if (std::string(verb) == "report") words.insert(words.end(), {"-o", "-"});
    const Outcome refused = lockstep(words);
    EXPECT_EQ(refused.code, 2) << verb;
    EXPECT_THAT(refused.err, HasSubstr("cluster.yaml:2:1: cluster: belongs to a scenario of a "
                                       "cluster; `lockstep cluster` answers that"))
        << verb;
  }
  EXPECT_EQ(lockstep({"cluster", test_folder().write("wrong.yaml", "name: x\n")}).code, 2);
}

TEST(Schema, IsJsonForEveryFormat) {
  for (const char* what : {"scenario", "cluster", "platform", "device", "profile"}) {
    const Outcome outcome = lockstep({"schema", what});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["$schema"],
              "http://json-schema.org/draft-07/schema#");
    EXPECT_THAT(lockstep({"schema", what, "--fields"}).out, HasSubstr("| field |"));
  }
}

TEST(Validate, IsAGateWithMaxError) {
  const std::string file =
      test_folder().write("gate.yaml", scenario_text("measured: [{gpus: 1, step_time: 1 h}]\n"));
  EXPECT_EQ(lockstep({"validate", file}).code, 0);
  EXPECT_EQ(lockstep({"validate", file, "--max-error", "101%"}).code, 0);
  const Outcome gate = lockstep({"validate", file, "--max-error", "50%"});
  EXPECT_EQ(gate.code, 4);
  EXPECT_THAT(gate.err, HasSubstr("off by more than 50.0 %"));
}

TEST(Validate, EveryFormat) {
  const std::string file = shipped("ovi2026/vgg16.yaml");
  EXPECT_EQ(nlohmann::json::parse(lockstep({"validate", file, "--json"}).out)["rows"].size(), 6U);
  const std::string csv = lockstep({"validate", file, "--csv"}).out;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_THAT(lockstep({"validate", file, "--markdown"}).out, HasSubstr("| --- |"));
  EXPECT_THAT(
      lockstep({"validate", file, "--openmetrics"}).out,
      AllOf(StartsWith("# TYPE lockstep info\n"), EndsWith("# EOF\n"),
            HasSubstr("lockstep_validation_rows{group=\"ovi2026\",used_for=\"test\"} 6\n")));
}

}  // namespace
}  // namespace lockstep::verbs_test
