// Does a scenario become the right points (batches, order, prices), and are refusals located?
#include <fmt/format.h>

#include <cmath>
#include <fstream>

#include "costs/collective.hpp"
#include "costs/profile.hpp"
#include "scenario/helpers.hpp"
#include "test_folder.hpp"

namespace lockstep::expand_test {
namespace {

using testing::HasSubstr;

struct Split {
  BatchSpec batch;
  int gpus;
  std::int64_t global, micro;
  int accumulation;
};

TEST(BatchSplit, EveryWayToSayABatch) {
  for (const Split& s : std::vector<Split>{
           // {global, per_gpu, micro, accumulation}
           {{256, 0, 0, 0}, 8, 256, 32, 1},
           {{256, 0, 0, 4}, 8, 256, 8, 4},
           {{256, 0, 8, 0}, 8, 256, 8, 4},
           {{256, 0, 8, 4}, 8, 256, 8, 4},
           {{0, 32, 0, 0}, 8, 256, 32, 1},
           {{0, 32, 0, 2}, 8, 256, 16, 2},
           {{0, 32, 16, 0}, 3, 96, 16, 2},
           {{0, 0, 4, 0}, 5, 20, 4, 1},
           {{0, 0, 4, 3}, 5, 60, 4, 3},
           {{1, 0, 0, 0}, 1, 1, 1, 1},
           {{0, 0, 1'000'000'000, 4096}, 1'000'000, 4'096'000'000'000'000'000, 1'000'000'000, 4096},
       }) {
    const BatchSplit split = split_batch(s.batch, s.gpus);
    EXPECT_EQ(split.global, s.global);
    EXPECT_EQ(split.micro, s.micro);
    EXPECT_EQ(split.accumulation, s.accumulation);
  }
}

TEST(BatchSplit, WhatDoesNotDivideSaysWhy) {
  struct Case {
    BatchSpec batch;
    int gpus;
    const char* reason;
  };
  for (const auto& [batch, gpus, reason] : std::vector<Case>{
           {{100, 0, 0, 0}, 8, "global batch 100 does not divide among 8 GPUs"},
           {{64, 0, 3, 0}, 8, "8 samples per GPU are no whole number of micro-batches of 3"},
           {{64, 0, 0, 3}, 8, "8 samples per GPU do not divide into 3 micro-batches"},
           {{64, 0, 4, 3}, 8, "accumulation 3 contradicts 2 micro-batches of 4"},
           {{0, 5, 0, 2}, 1, "5 samples per GPU do not divide into 2 micro-batches"},
           {{0, 8192, 1, 0}, 1, "8192 micro-batches per step are too many, at most 4096"},
           {{0, 0, 1, 5000}, 1, "5000 micro-batches per step are too many, at most 4096"},
       }) {
    try {
      split_batch(batch, gpus);
      ADD_FAILURE() << reason;
    } catch (const std::invalid_argument& error) {
      EXPECT_STREQ(error.what(), reason);
    }
  }
}

TEST(Expand, StrategiesOutermostGpuCountsInside) {
  const auto points = expand(scenario_of("strategies: [ddp, fsdp]\ngpus: [4, 1, 2]\n"));
  ASSERT_EQ(points.size(), 6U);
  const int gpus[] = {4, 1, 2, 4, 1, 2};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(points[i].label, i < 3 ? "ddp" : "fsdp");
    EXPECT_EQ(points[i].job.mesh.gpus(), gpus[i]);
    EXPECT_EQ(points[i].global_batch, 16 * gpus[i]);
  }
}

TEST(Expand, AStrategysOwnSettingsOverrideTheScenarios) {
  const auto points =
      expand(scenario_of("precision: amp-bf16\nmodel: gpt2\nbatch: {micro: 1}\n"
                         "strategies:\n- ddp\n- ddp: {}\n  label: b\n  precision: fp32\n  "
                         "activation_checkpointing: true\n"));
  EXPECT_EQ(points[0].precision, Precision::amp_bf16);
  EXPECT_EQ(points[1].precision, Precision::fp32);
  const auto checkpointed = [](const Point& point) {
    for (const auto& layer : point.job.step->layers) {
      if (layer.checkpointed) return true;
    }
    return false;
  };
  EXPECT_FALSE(checkpointed(points[0]));
  EXPECT_TRUE(checkpointed(points[1]));
}

// Device seconds of the layers of one micro-batch.
double busy_layers(const std::string& more) {
  const Point point = expand(scenario_of(more)).front();
  double busy = 0;
  for (std::size_t i = 0; i < point.job.step->layers.size(); ++i) {
    const LayerCost cost = point.job.costs->layer(*point.job.step, i);
    busy += cost.forward.busy + cost.backward.busy;
  }
  return busy;
}

// TF32 is a permission: it makes no network slower, and changes nothing on devices without TF32.
TEST(Expand, Tf32NeverCostsDeviceTime) {
  for (const char* platform :
       {"dgx1-v100-32gb", "v100-sxm2-16gb-x1", "g4dn.12xlarge", "cpu-loopback-x2", "rtx3090-x1",
        "g5.12xlarge", "a10-x1", "g6.12xlarge", "g6e.12xlarge", "a100-pcie-40gb-x4",
        "a100-pcie-80gb-x8", "a100-sxm4-40gb-x4", "dgx-a100-80gb", "h100-pcie-x8", "dgx-h100",
        "dgx-h200", "dgx-b200"}) {
    const bool has_tf32 = load_machine(platform).device.tf32_flops > 0;
    for (const char* model : {"resnet50", "vgg16", "mobilenet_v3_large", "densenet121",
                              "efficientnet_b0", "convnext_tiny", "resnext50_32x4d", "gpt2"}) {
      const std::string where =
          fmt::format("platform: {}\nmodel: {}\ngpus: 1\nprecision: ", platform, model);
      const double fp32 = busy_layers(where + "fp32");
      for (const char* other : {"torch-fp32", "tf32"}) {
        const double allowed = busy_layers(where + other);
        if (has_tf32) {
          EXPECT_LE(allowed, fp32 * (1 + 1e-12)) << where << other;
        } else {
          EXPECT_EQ(allowed, fp32) << where << other;
        }
      }
    }
  }
}

// Not all fp32 lanes of a data sheet multiply. A network in fp32 cannot be faster than the same
// network was measured with TF32 allowed (scenarios/calibration/lambda_resnet50_3090_fp32.yaml).
TEST(Expand, Fp32IsNotFasterThanMeasuredWithTf32Allowed) {
  EXPECT_GT(busy_layers("platform: rtx3090-x1\nmodel: resnet50\nbatch: {per_gpu: 224}\ngpus: 1"),
            0.4365);
  EXPECT_GT(busy_layers("platform: a10-x1\nmodel: resnet50\nbatch: {per_gpu: 224}\ngpus: 1"),
            0.6408);
}

TEST(Expand, MuonKnowsTheModelsMatricesAndRefusesShards) {
  const auto points = [](const std::string& strategies) {
    return expand(
        scenario_of("model: gpt2\noptimizer: {name: muon}\ngpus: 8\nstrategies: " + strategies));
  };
  const Job job = points("[ddp]").front().job;
  EXPECT_EQ(job.optimizer.matrices.size(), 12u * 4);
  EXPECT_EQ(job.optimizer.elements, 124'439'808);
  EXPECT_THAT(
      refusal([&] { (void)points("[ddp, fsdp, zero, parameter_server: {servers: 2}]"); }),
      testing::AllOf(
          HasSubstr("test.yaml:8:19: fsdp: muon orthogonalises whole matrices, and FSDP's ranks "
                    "keep shards of them; ddp, or local_sgd"),
          HasSubstr("test.yaml:8:25: zero: "), HasSubstr("parameter_server.placement: ")));
}

TEST(Expand, HalfPrecisionIsGatheredOnlyWhereItIsComputed) {
  EXPECT_THAT(refusal([] {
                expand(
                    scenario_of("precision: fp32\ngpus: 8\n"
                                "strategies: [fsdp: {gather_element_size: 2 B}]"));
              }),
              testing::AllOf(HasSubstr("test.yaml:8:14"), HasSubstr("fsdp.gather_element_size"),
                             HasSubstr("amp-bf16")));
  for (const char* precision : {"amp-bf16", "amp-fp16", "pure-bf16"}) {
    EXPECT_EQ(expand(scenario_of("gpus: 8\nprecision: " + std::string(precision) +
                                 "\nstrategies: [fsdp: {gather_element_size: 2 B}]"))
                  .size(),
              1u);
  }
}

TEST(Expand, ScenarioPriceOverridesThePlatforms) {
  const auto points = expand(scenario_of("price_per_gpu_hour: 7.5 USD/h\n"));
  EXPECT_EQ(points[0].job.machine.price_per_gpu_hour, 7.5);
}

TEST(Expand, TheFabricIsThePlatformsButForWhatTheScenarioChanges) {
  const std::string nodes = "gpus: 16\nplatform: p4d.24xlarge\n";
  const FabricSpec described = expand(scenario_of(nodes))[0].job.machine.fabric;
  FabricSpec expected = described;
  expected.nic_bytes_per_second = 10e9 / 8;
  expected.nics_per_node = 2;
  const FabricSpec changed =
      expand(scenario_of(nodes + "fabric: {nic_rate: 10 Gbit/s, nics_per_node: 2}\n"))[0]
          .job.machine.fabric;
  EXPECT_EQ(changed.nic_bytes_per_second, expected.nic_bytes_per_second);
  EXPECT_EQ(changed.nics_per_node, expected.nics_per_node);
  EXPECT_EQ(changed.latency_seconds, described.latency_seconds);
  EXPECT_EQ(changed.kind, described.kind);
}

TEST(Expand, AFabricIsChangedOnlyWhereThereIsOne) {
  EXPECT_THAT(
      refusal([] { expand(scenario_of("platform: rtx3090-x1\nfabric: {nic_rate: 1 Gbit/s}\n")); }),
      testing::AllOf(HasSubstr("fabric: rtx3090-x1 has no network between nodes"),
                     HasSubstr("test.yaml:")));
  EXPECT_THAT(
      refusal([] {
        expand(scenario_of("platform: p4d.24xlarge\ngpus: 16\nfabric: {oversubscription: 2}\n"));
      }),
      HasSubstr("fabric.oversubscription: has no effect where one switch joins all nodes"));
}

TEST(Expand, TrunksJoinNodesThatThereAre) {
  const std::string text = "platform: p4d.24xlarge\ngpus: 16\n";
  const auto refused = [&](const std::string& more) {
    return refusal([&] { expand(scenario_of(text + more)); });
  };
  EXPECT_THAT(refused("fabric: {trunks: [{between: [0], and: [1, 128], rate: 10 Gbit/s}]}\n"),
              HasSubstr("fabric.trunks: there is no node 128; nodes are 0 to 127"));
  EXPECT_THAT(refused("fabric: {trunks: [{between: [0, 1], and: [2, 1], rate: 10 Gbit/s}]}\n"),
              HasSubstr("node 1 is on both sides"));
  EXPECT_THAT(refused("fabric: {trunks: [{between: [], and: [2, 3], rate: 10 Gbit/s}]}\n"),
              HasSubstr("between: has 0 elements; at least 1 needed"));
  EXPECT_THAT(refused("fabric: {trunks: [{between: [0], and: [2, 3], rate: 10 Gbit/s}, "
                      "{between: [3, 2], and: [0], rate: 10 Gbit/s}]}\n"),
              HasSubstr("trunks: names a trunk between the same nodes twice"));
  EXPECT_THAT(refused("fabric: {trunks: [{between: [0], and: [1], rate: 10 Gbit/s}]}\n"
                      "stragglers: {slow_links: [{link: trunk, speed: 50%}]}\n"),
              HasSubstr("a trunk has the rate that it is given"));
}

// PyTorch 2.15 refused each of these.
TEST(Expand, WhatPyTorchRefusesIsRefused) {
  const auto refused = [](const std::string& text, const std::string& options) {
    return refusal(
        [&] { expand(scenario_of(text + "strategies: [{fsdp: {" + options + "}}]\n")); });
  };
  const std::string last = "gpus: 2\nmodel: resnet18\nmemory_format: channels_last\n";
  EXPECT_THAT(
      refused(last, "version: 2"),
      testing::AllOf(HasSubstr("test.yaml:"), HasSubstr("fsdp.version: PyTorch refuses this"),
                     HasSubstr("conv1.weight is not with memory_format: channels_last"),
                     HasSubstr("`version: 1` takes it")));
  EXPECT_EQ(refused(last, "version: 1"), "");
  EXPECT_EQ(refused("gpus: 2\nmodel: gpt2\nmemory_format: channels_last\n", "version: 2"), "");

  const std::string half = "gpus: 2\nmodel: resnet18\nprecision: amp-bf16\n";
  EXPECT_THAT(refused(half, "version: 2"),
              testing::AllOf(HasSubstr("fsdp.version: PyTorch refuses this: bn1"),
                             HasSubstr("Expected running_mean to have type BFloat16 but got Float"),
                             HasSubstr("`version: 1` keeps batch norms in fp32")));
  EXPECT_THAT(refused(half, "version: 1, wrap: {policy: none}"),
              HasSubstr("fsdp.wrap.policy: PyTorch refuses this: bn1"));
  EXPECT_EQ(refused(half, "version: 1"), "");
  EXPECT_EQ(refused(half, "version: 2, gather_element_size: 4 B"), "");
  EXPECT_EQ(refused("gpus: 2\nmodel: resnet18\nprecision: pure-bf16\n", "version: 2"), "");
  EXPECT_EQ(refused("gpus: 2\nmodel: vgg16\nprecision: amp-bf16\n", "version: 2"), "");

  const std::string tied = "gpus: 2\nmodel: gpt2\n";
  const std::string by_size = "wrap: {min_parameters: 30M}";
  EXPECT_THAT(
      refused(tied, "use_orig_params: true, " + by_size),
      testing::AllOf(HasSubstr("fsdp.wrap: PyTorch refuses this: lm_head shares wte.weight"),
                     HasSubstr("`policy: block` leaves both to the root unit")));
  EXPECT_THAT(refused(tied, by_size), HasSubstr("PyTorch would untie lm_head from wte.weight"));
  EXPECT_EQ(refused(tied, "use_orig_params: true, sharding: no_shard, " + by_size), "");
  EXPECT_EQ(refused(tied, "wrap: {min_parameters: 40M}"), "");
  EXPECT_EQ(refused(tied, "version: 2, " + by_size), "");  // DeepSpeed's ZeRO-3 accepts it
}

TEST(Expand, ScalesReachCostsAndTransfers) {
  const Scenario s = scenario_of("gpus: 2\n");
  const Point plain = expand(s)[0], scaled = expand(s, {{2, 3, 4}})[0];
  EXPECT_EQ(scaled.job.communication_scale, 4);
  EXPECT_DOUBLE_EQ(scaled.memory_bound_seconds, 2 * plain.memory_bound_seconds);
  for (std::size_t i = 0; i < plain.job.step->layers.size(); ++i) {
    const LayerCost a = plain.job.costs->layer(*plain.job.step, i);
    const LayerCost b = scaled.job.costs->layer(*scaled.job.step, i);
    EXPECT_DOUBLE_EQ(b.forward.busy, 2 * a.forward.busy);
    EXPECT_DOUBLE_EQ(b.backward.host, 3 * a.backward.host);
  }
}

TEST(Expand, AProfilesCurvesReplaceTheModelOfItsMachine) {
  const std::string path = test_folder().write("curves.yaml", R"(format: 1
device: cpu-core
allocator: {context: 190 MiB}
collectives:
  - {collective: all_reduce, backend: gloo, ranks: 2, points: [{bytes: 1 KiB, time: 1 s, host: 0.25 s}]}
complete: true
)");
  const std::string cpu = "platform: cpu-loopback-x2\ngpus: [2]\nstrategies: [ddp]\n";
  const Machine without = expand(scenario_of(cpu))[0].job.machine;
  const Machine with = expand(scenario_of(cpu + "profile: " + path + "\n"))[0].job.machine;
  const CommGroup pair{.ranks_per_node = 2, .nodes = 1};
  const auto cost = [&](const Machine& machine, Collective collective) {
    return collective_cost(machine, pair, collective, 1024);
  };
  EXPECT_DOUBLE_EQ(cost(with, Collective::all_reduce).seconds(), 1);
  EXPECT_DOUBLE_EQ(cost(with, Collective::all_reduce).cores, 0.25);
  EXPECT_EQ(cost(with, Collective::all_reduce).provenance, Provenance::measured);
  EXPECT_EQ(cost(without, Collective::all_reduce).provenance, Provenance::modelled);
  EXPECT_DOUBLE_EQ(cost(with, Collective::broadcast).seconds(),
                   cost(without, Collective::broadcast).seconds());
  EXPECT_DOUBLE_EQ(with.device.context_bytes, 190 * 1024.0 * 1024.0);
}

// If layers took twice their modelled time at batch 8, layers at batch 16 take longer than
// modelled, too.
TEST(Expand, ABatchBesideTheProfilesIsScaledByIt) {
  const auto layers = [](const Point& point) {
    std::vector<LayerCost> costs;
    for (std::size_t i = 0; i < point.job.step->layers.size(); ++i)
      costs.push_back(point.job.costs->layer(*point.job.step, i));
    return costs;
  };
  const auto scenario = [](int batch, const std::string& more) {
    return scenario_of(
        fmt::format("model: lenet5\nplatform: cpu-loopback-x2\nstrategies: [ddp]\n"
                    "gpus: [1]\nbatch: {{per_gpu: {}}}\n{}",
                    batch, more));
  };
  const Point eight = expand(scenario(8, ""))[0];
  ProfileBatch of_eight;
  of_eight.samples = 8;
  const std::vector<LayerCost> modelled_eight = layers(eight);
  for (std::size_t i = 0; i < modelled_eight.size(); ++i) {
    of_eight.layers.push_back({.name = eight.job.step->layers[i].name,
                               .forward_seconds = 2 * modelled_eight[i].forward.busy,
                               .backward_seconds = 2 * modelled_eight[i].backward.busy});
  }
  Profile profile;
  profile.device = "cpu-core";
  profile.models = {{"lenet5", eight.precision, eight.job.step->input_bytes / 8, {of_eight}}};
  const std::string path = test_folder().write("profile.yaml", profile_text(profile));
  const std::string with = "profile: " + path + "\n";
  const auto modelled = layers(expand(scenario(16, ""))[0]);
  const auto scaled = layers(expand(scenario(16, with))[0]);
  const auto far = layers(expand(scenario(80, with))[0]);
  const auto modelled_far = layers(expand(scenario(80, ""))[0]);
  const double longer = std::pow(2, 1 - std::pow(std::log10(2), 4));
  ASSERT_EQ(scaled.size(), modelled.size());
  for (std::size_t i = 0; i < modelled.size(); ++i) {
    EXPECT_NEAR(scaled[i].forward.busy, longer * modelled[i].forward.busy,
                1e-6 * modelled[i].forward.busy);
    EXPECT_NEAR(scaled[i].backward.busy, longer * modelled[i].backward.busy,
                1e-6 * modelled[i].backward.busy);
    EXPECT_EQ(scaled[i].forward.provenance, Provenance::modelled);
    EXPECT_DOUBLE_EQ(far[i].backward.busy, modelled_far[i].backward.busy);
  }
}

// Layers of a model that the profile lacks are scaled by the measured-to-modelled ratio of another
// model's layers. This also holds if the scenario recomputes activations and the measured training
// did not.
TEST(Expand, AModelIsScaledByAnotherOneThatIsAlike) {
  const auto scenario = [](const std::string& model, const std::string& more) {
    return scenario_of("model: " + model +
                       "\nplatform: a100-sxm4-80gb-x1\nstrategies: [ddp]\ngpus: [1]\n"
                       "batch: {per_gpu: 1}\n" +
                       more);
  };
  const Point known = expand(scenario("gpt2", ""))[0];
  ProfileBatch batch;
  batch.samples = 1;
  for (std::size_t i = 0; i < known.job.step->layers.size(); ++i) {
    const LayerCost cost = known.job.costs->layer(*known.job.step, i);
    batch.layers.push_back({.name = known.job.step->layers[i].name,
                            .forward_seconds = 2 * cost.forward.busy,
                            .backward_seconds = 3 * cost.backward.busy});
  }
  Profile profile;
  profile.device = "a100-sxm4-80gb";
  profile.models = {{"gpt2", known.precision, known.job.step->input_bytes, {batch}}};
  const std::string path = test_folder().write("profile.yaml", profile_text(profile));
  for (const std::string more : {"", "activation_checkpointing: true\n"}) {
    const Point modelled = expand(scenario("gpt2-medium", more))[0];
    const Point scaled = expand(scenario("gpt2-medium", more + "profile: " + path + "\n"))[0];
    for (std::size_t i = 0; i < modelled.job.step->layers.size(); ++i) {
      if (modelled.job.step->layers[i].kind != "linear") continue;
      const LayerCost a = modelled.job.costs->layer(*modelled.job.step, i),
                      b = scaled.job.costs->layer(*scaled.job.step, i);
      const double again = modelled.job.step->layers[i].checkpointed ? 1 : 0;
      EXPECT_NEAR(b.forward.busy, 2 * a.forward.busy, 0.02 * a.forward.busy);
      EXPECT_NEAR(b.backward.busy - again * b.forward.busy,
                  3 * (a.backward.busy - again * a.forward.busy), 0.03 * a.backward.busy);
    }
  }
}

TEST(Expand, EverythingThatDoesNotFitIsSaidAtOnceAndWhere) {
  const std::string what =
      refusal([] { expand(scenario_of("batch: {global: 100}\ngpus: [3, 4, 6, 100000]\n")); });
  EXPECT_THAT(what, HasSubstr("test.yaml:6:8: batch: global batch 100 does not divide among 3"));
  EXPECT_THAT(what, HasSubstr("global batch 100 does not divide among 6 GPUs"));
  EXPECT_THAT(what, HasSubstr("test.yaml:7:7: gpus: 100000 GPUs, but dgx-a100-80gb has at most"));
}

TEST(Expand, UnknownNamesAreSaidTogetherWhereTheyStand) {
  const std::string what =
      refusal([] { expand(scenario_of("model: resnet5O\nplatform: dgx-a100\n")); });
  EXPECT_THAT(what, HasSubstr("test.yaml:5:8: model: there is no model 'resnet5O'"));
  EXPECT_THAT(what, HasSubstr("did you mean 'resnet50'?"));
  EXPECT_THAT(what, HasSubstr("test.yaml:6:11: platform: unknown platform 'dgx-a100'"));
}

TEST(Expand, TooManyPointsAreRefused) {
  std::string gpus, strategies;
  for (int i = 1; i <= 900; ++i) gpus += (i > 1 ? ", " : "") + std::to_string(i);
  for (int i = 0; i < 5; ++i) strategies += "\n- ddp: {}\n  label: s" + std::to_string(i);
  EXPECT_THAT(refusal([&] {
                expand(scenario_of("gpus: [" + gpus + "]\nstrategies:" + strategies + "\n"));
              }),
              HasSubstr("5 strategies at 900 GPU counts are too many points, at most 4096"));
}

TEST(Expand, AStrategysRefusalIsLocatedAtItsEntry) {
  const auto points = expand(scenario_of(
      "gpus: 6\nstrategies:\n- ddp\n- fsdp: {sharding: hybrid_shard, shard_group: 4}\n"));
  EXPECT_THAT(refusal([&] { simulate(points); }),
              testing::MatchesRegex("test.yaml:9:3: fsdp.shard_group: fsdp on 6 GPUs: .*"));
}

}  // namespace
}  // namespace lockstep::expand_test
