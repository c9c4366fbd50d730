// Does a change that a prediction advises really help when it is made?
#include "questions/advice.hpp"

#include <fmt/format.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <functional>
#include <regex>

#include "core/data.hpp"
#include "points/measured.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::advice_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// An advice's words as changes to the scenario. The test parses the words independently of the
// program.
struct Meaning {
  std::function<void(Scenario&, const Point&)> scenario;
  MachineEdit machine;
};

const std::map<std::string, Meaning>& meanings() {
  static const auto faster = [](auto edit) {
    return Meaning{{}, [edit](Machine& m, Framework&) { edit(m); }};
  };
  static const auto flops = faster([](Machine& m) {
    m.device.fp32_flops *= 1.1;
    m.device.tf32_flops *= 1.1;
    m.device.fp16_flops *= 1.1;
    m.device.bf16_flops *= 1.1;
    m.device.fp8_flops *= 1.1;
    m.device.clock_hz *= 1.1;
  });
  static const auto precision = [](Precision lower) {
    return Meaning{[lower](Scenario& s, const Point&) { s.strategies[0].precision = lower; }, {}};
  };
  static const auto change = [](void (*edit)(Scenario&, const Point&)) {
    return Meaning{edit, {}};
  };
  static const std::map<std::string, Meaning> all{
      {"a faster GPU", flops},
      {"a faster CPU", flops},
      {"more memory bandwidth", faster([](Machine& m) { m.device.memory_bandwidth *= 1.1; })},
      {"faster NVLink", faster([](Machine& m) { m.nvlink.bytes_per_second *= 1.1; })},
      {"faster PCIe", faster([](Machine& m) {
         m.pcie.scale *= 1.1;
         m.pcie.host_path_bytes_per_second *= 1.1;
       })},
      {"faster NICs", faster([](Machine& m) { m.fabric.nic_bytes_per_second *= 1.1; })},
      {"a lower network latency", faster([](Machine& m) { m.fabric.latency_seconds /= 1.1; })},
      {"faster memory of the hosts", faster([](Machine& m) { m.host.memory_bandwidth *= 1.1; })},
      {"a faster host",
       {{},
        [](Machine& m, Framework& f) {
          f.operator_seconds = host_rates(m.host, f).forward_operator / 1.1;
          m.host.dispatch_seconds /= 1.1;
          m.host.launch_seconds /= 1.1;
        }}},
      {"a lower precision (tf32)", precision(Precision::tf32)},
      {"a lower precision (amp-fp16)", precision(Precision::amp_fp16)},
      {"a lower precision (amp-bf16)", precision(Precision::amp_bf16)},
      {"torch.compile",
       change([](Scenario& s, const Point&) { s.strategies[0].compile = Compile::whole; })},
      {"CUDA graphs",
       change([](Scenario& s, const Point&) { s.strategies[0].cuda_graphs = true; })},
      {"products in fp8 (other numerics)", change([](Scenario& s, const Point&) {
         s.strategies[0].low_precision = LowPrecision{LowPrecisionRecipe::fp8_current, false};
       })},
      {"channels_last",
       change([](Scenario& s, const Point&) { s.memory_format = MemoryFormat::channels_last; })},
      {"a larger batch per GPU", change([](Scenario& s, const Point& p) {
         s.batch = {.micro = 2 * p.micro_batch, .accumulation = p.job.accumulation};
       })},
      {"gradient accumulation", change([](Scenario& s, const Point& p) {
         s.batch = {.micro = p.micro_batch, .accumulation = 2 * p.job.accumulation};
       })},
      {"a fused optimizer", change([](Scenario& s, const Point&) {
         s.optimizer.implementation = OptimizerImplementation::fused;
       })},
      {"keeping the optimizer's state on the GPUs", change([](Scenario& s, const Point&) {
         std::get<FsdpOptions>(s.strategies[0].options).cpu_offload = false;
       })},
      {"more loader workers or cheaper preprocessing",
       change([](Scenario& s, const Point&) { s.data_loading.samples_per_second *= 1.1; })},
      {"preparing the batches on the device",
       change([](Scenario& s, const Point&) { s.data_loading.on_device = true; })},
      {"ranks of equal speed", change([](Scenario& s, const Point&) {
         Stragglers equal;
         equal.per_rank_sigma = 0;
         equal.loader_hiccups = s.stragglers.loader_hiccups;
         equal.slow_links = s.stragglers.slow_links;
         equal.neighbours = s.stragglers.neighbours;
         s.stragglers = equal;
       })},
  };
  return all;
}

std::string advice_of(const Prediction& p) {
  const std::size_t at = p.bottleneck.rfind("; ");
  return at == std::string::npos ? "" : p.bottleneck.substr(at + 2);
}

// The changes an advice names: "A, B or C would help".
std::vector<std::string> named(std::string advice) {
  std::vector<std::string> found;
  const std::string end = " would help";
  if (!advice.ends_with(end)) return found;
  for (const auto& [words, meaning] : meanings()) {
    if (const std::size_t at = advice.find(words); at != std::string::npos) {
      found.push_back(words);
      advice.replace(at, words.size(), "");
    }
  }
  EXPECT_TRUE(std::regex_match(advice, std::regex("(, )*( or )? would help"))) << advice;
  return found;
}

double seconds_per_sample(const Point& point) {
  const StrategyResult result = simulate({point}).front();
  return mean(result.step_seconds) / result.samples_per_step;
}

// Returns the number of advised changes; each must gain its predicted time and fit.
int expect_that_all_help(const Scenario& scenario) {
  int advised = 0;
  for (const Prediction& p : run_scenario(scenario).predictions) {
    const auto entry = std::find_if(scenario.strategies.begin(), scenario.strategies.end(),
                                    [&](const auto& e) { return e.label == p.strategy; });
    const Scenario base =
        only(scenario, static_cast<std::size_t>(entry - scenario.strategies.begin()), p.gpus);
    const Point before = expand(base).front();
    const double now = seconds_per_sample(before);
    for (const std::string& words : named(advice_of(p))) {
      const Meaning& meaning = meanings().at(words);
      Scenario changed = base;
      if (meaning.scenario) meaning.scenario(changed, before);
      const Point after = expand(changed, {}, meaning.machine).front();
      EXPECT_LE(seconds_per_sample(after), (1 - least_gain) * now * (1 + 1e-6))
          << write_scenario(base) << words;
      EXPECT_TRUE(fits(memory_of({after}).front())) << write_scenario(base) << words;
      ++advised;
    }
  }
  return advised;
}

std::string advice_to(const std::string& scenario) {
  return advice_of(run_scenario(scenario_of(scenario)).predictions.front());
}

// Sharded gradients are gathered and reduced in every micro-batch, so more micro-batches save
// nothing.
TEST(Advice, ShardsAreNotToldToAccumulate) {
  const std::string advice = advice_to(
      "model: qwen2.5-0.5b\ninput: {sequence: 512}\nbatch: {micro: 1, accumulation: 2}\n"
      "precision: fp32\nplatform: g5.12xlarge\ngpus: 4\nstrategies: [fsdp]\n");
  EXPECT_EQ(advice, "a larger batch per GPU or faster PCIe would help");
}

// 90 % of the step is compute, but the loader needs exactly the step's time for its batch.
TEST(Advice, AFasterGpuIsNoHelpWhereTheLoaderSetsThePace) {
  const std::string advice = advice_to(
      "model: convnext_tiny\nbatch: {micro: 128, accumulation: 4}\nprecision: amp-fp16\n"
      "memory_format: channels_last\ndata_loading: {samples_per_second: 700}\n"
      "platform: g5.12xlarge\ngpus: 2\nstrategies: [fsdp: {version: 1}]\n");
  EXPECT_EQ(advice, "more loader workers or cheaper preprocessing would help");
}

// One TCP stream, not the card, limits the rate.
TEST(Advice, FasterNicsAreNoHelpWhereAStreamIsCapped) {
  const std::string advice = advice_to(
      "model: convnext_tiny\nbatch: {micro: 1}\nprecision: fp32\nplatform: g6e.12xlarge\n"
      "gpus: 16\nstrategies: [ddp]\n");
  EXPECT_EQ(advice, "a larger batch per GPU or gradient accumulation would help");
}

TEST(Advice, OnlyWhatIsPossible) {
  const std::string large = "model: gpt2\nplatform: dgx-h100\nbatch: {micro: 16}\n";
  EXPECT_THAT(advice_to(large + "precision: fp32\n"), HasSubstr("a lower precision (amp-bf16)"));
  EXPECT_THAT(advice_to(large + "precision: amp-bf16\n"), Not(HasSubstr("a lower precision")));
  const std::string images = "model: resnet50\nprecision: amp-fp16\nbatch: {micro: 64}\n";
  EXPECT_THAT(advice_to(images), HasSubstr("channels_last"));
  EXPECT_THAT(advice_to(images + "memory_format: channels_last\n"), Not(HasSubstr("channels_")));
  // 25 GbE between two nodes limits the step; twice the batch fits in one of the two cases only.
  const std::string slow =
      "model: resnet50\nplatform: dgx-a100-80gb-25gbe\ngpus: 16\nprecision: fp32\n";
  EXPECT_THAT(advice_to(slow + "batch: {micro: 8}\n"), HasSubstr("a larger batch per GPU"));
  EXPECT_THAT(advice_to("model: gpt2-xl\ninput: {sequence: 1024}\nprecision: fp32\n"
                        "batch: {micro: 8}\nplatform: dgx-a100-80gb-10gbe\ngpus: 16\n"),
              Not(HasSubstr("a larger batch per GPU")));
}

// A trial with so many workers would take longer than the prediction itself, so no advice is given.
TEST(Advice, NoneIsGivenOfWhatIsDearToTry) {
  EXPECT_EQ(advice_to("model: lenet5\ngpus: 512\nprecision: amp-bf16\n"
                      "strategies: [parameter_server: {consistency: async}]\n"),
            "");
}

// Advice must help in scenarios whose options were drawn together, too
// (tests/fuzz/draw_scenarios.py).
class AdviceToDrawn : public testing::TestWithParam<int> {};
TEST_P(AdviceToDrawn, Helps) {
  std::ifstream in(data_folder("") + "/tests/scenario/golden/drawn.jsonl");
  int number = 0, advised = 0;
  for (std::string line; std::getline(in, line);) {
    if (number++ % 24 == GetParam()) {
      advised += expect_that_all_help(read_scenario_text(line, "drawn.yaml"));
    }
  }
  EXPECT_GT(advised, 10);
}
INSTANTIATE_TEST_SUITE_P(, AdviceToDrawn, testing::Range(0, 3));

RC_GTEST_PROP(Advice, Helps, ()) {
  const auto one_of = [](std::vector<std::string> texts) {
    return *rc::gen::elementOf(std::move(texts));
  };
  const std::string text = fmt::format(
      "model: {}\nplatform: {}\ngpus: {}\nbatch: {{micro: {}, accumulation: {}}}\nprecision: {}\n"
      "optimizer: {{name: {}}}\nsimulation: {{steps: 40}}\nstrategies: [{}]\n{}",
      one_of({"resnet50", "convnext_tiny", "gpt2", "bert-base", "vgg16", "lenet5"}),
      one_of({"g5.12xlarge", "p4d.24xlarge", "dgx-a100-80gb-25gbe", "g6e.12xlarge", "dgx-h100"}),
      one_of({"1", "2", "4", "16"}), one_of({"1", "4", "32"}), one_of({"1", "2"}),
      one_of({"fp32", "amp-bf16", "amp-fp16"}), one_of({"sgd", "adamw"}),
      one_of({"ddp", "fsdp", "fsdp: {version: 2}", "fsdp: {cpu_offload: true}", "zero",
              "parameter_server"}),
      one_of({"", "", "data_loading: {samples_per_second: 300}\n",
              "stragglers: {per_step: {lognormal: {sigma: 5%}}}\n"}));
  const Scenario scenario = scenario_of(text);
  RC_PRE(refusal([&] { expand(scenario); }).empty());  // FSDP2's mixed precision refuses batch norm
  expect_that_all_help(scenario);
  RC_ASSERT(!testing::Test::HasFailure());
}

}  // namespace
}  // namespace lockstep::advice_test
