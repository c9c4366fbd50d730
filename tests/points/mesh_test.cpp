// Do scenarios with `parallel:` become the right points, and are impossible meshes refused at their
// place?
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "results/render.hpp"
#include "scenario/alternatives.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::mesh_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string gpt(const std::string& more) {
  return "model: gpt\nmodel_parameters: {layers: 8, hidden: 512, heads: 8, sequence: 256, "
         "vocabulary: 51200}\n"
         "batch: {global: 32, micro: 1}\nprecision: amp-bf16\n" +
         more;
}

std::vector<Point> points_of(const std::string& more) {
  return expand(scenario_of(gpt(more)));
}

TEST(Mesh, DividesTheBatchAmongReplicas) {
  const std::vector<Point> points =
      points_of("gpus: [16, 32]\nparallel: {tensor: 2, pipeline: 4}\n");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].job.mesh, (Mesh{.pipeline = 4, .data = 2, .context = 1, .tensor = 2}));
  EXPECT_EQ(points[0].job.accumulation, 16);
  EXPECT_EQ(points[1].job.mesh.data, 4);
  EXPECT_EQ(points[1].job.accumulation, 8);
  EXPECT_EQ(points[1].global_batch, 32);
}

// Under every mesh, all GPUs together compute the model's arithmetic once.
TEST(Mesh, SharesTheModelsArithmetic) {
  const double alone = points_of("gpus: 8\n").front().model_flops * 8;
  for (const char* mesh : {"{tensor: 8}", "{pipeline: 8}", "{tensor: 2, pipeline: 2}",
                           "{tensor: 2, context: 2, pipeline: 2}"}) {
    const Point point = points_of("gpus: 8\nparallel: " + std::string(mesh) + "\n").front();
    EXPECT_NEAR(point.model_flops * 8, alone, 1e-9 * alone) << mesh;
    EXPECT_EQ(point.parameters, points_of("gpus: 1\n").front().parameters) << mesh;
  }
}

// If there are too few GPUs for one replica, the message advises one number. A misfit that all
// strategies share is reported once.
TEST(Mesh, AMisfitIsToldOnceWithWhatFits) {
  const std::string few = refusal([] {
    points_of("gpus: 8\nparallel: {tensor: 4, pipeline: 4}\nstrategies: [ddp, fsdp, zero]\n");
  });
  EXPECT_THAT(few, HasSubstr("8 GPUs are not whole replicas of 16"));
  EXPECT_THAT(few, HasSubstr("; 16"));
  EXPECT_THAT(few, testing::Not(HasSubstr("16 or 16")));
  EXPECT_EQ(few.find("whole replicas"), few.rfind("whole replicas")) << few;
  const std::string more =
      refusal([] { points_of("gpus: 24\nparallel: {tensor: 4, pipeline: 4}\n"); });
  EXPECT_THAT(more, HasSubstr("16 or 32"));
}

TEST(Mesh, OfAStrategyReplacesThatOfTheScenario) {
  const std::vector<Point> points = points_of(
      "gpus: 8\nparallel: {tensor: 2}\n"
      "strategies: [ddp, {fsdp: {}, parallel: {pipeline: 2}}]\n");
  EXPECT_EQ(points[0].job.mesh.tensor, 2);
  EXPECT_EQ(points[1].job.mesh.tensor, 1);
  EXPECT_EQ(points[1].job.mesh.pipeline, 2);
}

TEST(Mesh, ListsAreAlternatives) {
  const auto alternatives = read_alternatives_text(
      scenario_text(gpt("gpus: 8\nparallel: {tensor: [1, 2], pipeline: {stages: 2, schedule: "
                        "[gpipe, 1f1b]}}\n")),
      "test.yaml");
  ASSERT_EQ(alternatives.size(), 4u);
  EXPECT_EQ(alternatives[3].scenario.parallel.tensor.size, 2);
  EXPECT_EQ(alternatives[3].scenario.parallel.pipeline.schedule, PipelineSchedule::one_f_one_b);
  EXPECT_EQ(value_of(alternatives[3].scenario, "parallel.tensor"), "2");
}

TEST(Mesh, ThatIsImpossibleIsRefusedWhereItStands) {
  struct Case {
    std::string fields;
    std::vector<const char*> parts;
  };
  for (const auto& [fields, parts] : std::vector<Case>{
           {"gpus: 12\nparallel: {tensor: 8}\n",
            {"test.yaml:", "gpus: 12 GPUs are not whole replicas of 8", "8 or 16"}},
           {"gpus: 8\nparallel: {tensor: 3}\n", {"gpus: 8 GPUs are not whole replicas of 3"}},
           {"gpus: 12\nparallel: {tensor: 3}\nbatch: {micro: 1}\n",
            {"test.yaml:", "parallel.tensor", "3 GPUs cannot share"}},
           {"gpus: 8\nparallel: {pipeline: {stages: 4, schedule: interleaved, chunks: 3}}\n",
            {"parallel.pipeline.layers", "12 parts"}},
           {"gpus: 8\nparallel: {pipeline: {stages: 8, schedule: dualpipe-v, chunks: 4}}\n",
            {"parallel.pipeline.chunks", "dualpipe-v has 2"}},
           {"gpus: 8\nparallel: {pipeline: {stages: 4, schedule: gpipe, slices: 3}}\n",
            {"parallel.pipeline.slices", "3 slices cannot share 256 tokens", "a divisor of 256"}},
           {"gpus: 8\nparallel: {pipeline: {stages: 4, slices: 2}}\n",
            {"parallel.pipeline.slices", "1f1b takes whole sequences", "schedule: gpipe"}},
           {"gpus: 8\nparallel: {pipeline: {slices: 2}}\n",
            {"parallel.pipeline.slices", "2 stages or more"}},
           {"gpus: 8\nparallel: {context: 2, pipeline: {stages: 4, schedule: gpipe, slices: 2}}\n",
            {"parallel.pipeline.slices", "context: 1"}},
           {"gpus: 8\nparallel: {tenser: 8}\n", {"parallel.tenser: unknown key", "tensor"}},
           {"gpus: 8\nparallel: {tensor: {size: 2, sequences: true}}\n",
            {"parallel.tensor.sequences: unknown key", "did you mean 'sequence'"}},
           {"gpus: 8\nparallel: {tensor: 2}\nstrategies: [parameter_server]\n",
            {"parallel: not with parameter_server", "ddp, fsdp, zero"}}}) {
    const std::string text =
        fields.find("batch:") == std::string::npos
            ? gpt(fields)
            : fields +
                  "model: gpt\nmodel_parameters: {layers: 8, hidden: 512, "
                  "heads: 8, sequence: 256, vocabulary: 51200}\nprecision: amp-bf16\n";
    const std::string said = refusal([&] { expand(scenario_of(text)); });
    for (const char* part : parts) EXPECT_THAT(said, HasSubstr(part)) << fields;
  }
}

// Each token slice is a step of its own; slices need attention that looks back only.
TEST(Mesh, OfTokenSlicesHasAStepForEach) {
  const std::string four =
      "gpus: 4\nparallel: {pipeline: {stages: 4, schedule: gpipe, slices: 4}}\n";
  const Job job = points_of(four).front().job;
  ASSERT_EQ(job.slices.size(), 4u);
  EXPECT_EQ(job.passes(), 4 * job.accumulation);
  double flops = 0;
  for (const PricedStep& slice : job.slices) {
    EXPECT_EQ(slice.step->tokens, 64);
    EXPECT_EQ(slice.step->parameter_count, job.step->parameter_count);
    EXPECT_EQ(slice.parts->size(), 4u);
    flops += slice.step->forward_flops;
  }
  EXPECT_NEAR(flops, job.step->forward_flops, 1e-9 * flops);
  EXPECT_TRUE(job.slices[0].step->whole_layers);
  EXPECT_FALSE(job.slices[1].step->whole_layers)
      << "no profile has measured keys of earlier tokens";
  EXPECT_EQ(job.slices[1].costs->layer(*job.slices[1].step, 5).forward.elsewhere[0], 0);
  const std::string t4 = "stragglers: {other_devices: [{device: t4, ranks: [1]}]}\n";
  const PricedStep slower = points_of(four + t4).front().job.slices[1];
  EXPECT_GT(slower.costs->layer(*slower.step, 5).forward.elsewhere[0], 0);
  const Job found =
      points_of("gpus: 4\nparallel: {pipeline: {stages: 4, schedule: gpipe, slices: 0}}\n")
          .front()
          .job;
  std::int64_t tokens = 0;
  for (const PricedStep& slice : found.slices) {
    EXPECT_EQ(slice.step->tokens % 8, 0);
    tokens += slice.step->tokens;
  }
  EXPECT_EQ(tokens, 256);
  EXPECT_THAT(refusal([&] { expand(scenario_of(four + "model: resnet18\n")); }),
              HasSubstr("parallel.pipeline.slices: model 'resnet18' reads images"));
  EXPECT_THAT(refusal([&] { expand(scenario_of(four + "model: bert\n")); }),
              HasSubstr("tokens look at later ones"));
}

// The exposed seconds of the axes add up to the exposed communication. Each axis of the mesh has
// some, and no other axis has any.
TEST(Mesh, TellsTheExposedCommunicationOfEachAxis) {
  struct Row {
    const char* mesh;
    std::vector<double AxisSeconds::*> axes;
  };
  for (const Row& row :
       {Row{"{tensor: 8}", {&AxisSeconds::tensor}}, Row{"{tensor: 2}", {&AxisSeconds::tensor}},
        Row{"{pipeline: 8}", {&AxisSeconds::pipeline}},
        Row{"{tensor: 2, pipeline: {stages: 2, schedule: interleaved, chunks: 2}}",
            {&AxisSeconds::tensor, &AxisSeconds::pipeline, &AxisSeconds::data}},
        Row{"{tensor: 2, context: {size: 2, exchange: all-to-all}, pipeline: 2}",
            {&AxisSeconds::tensor, &AxisSeconds::context, &AxisSeconds::pipeline,
             &AxisSeconds::data}}}) {
    const std::string text =
        gpt("gpus: 8\nplatform: dgx-a100-80gb\nparallel: " + std::string(row.mesh) + "\n");
    const Prediction p = run_scenario(scenario_of(text)).predictions.at(0);
    double sum = 0;
    for (const auto axis : axis_parts) {
      const bool there = std::find(row.axes.begin(), row.axes.end(), axis) != row.axes.end();
      EXPECT_EQ(p.split.exposed.*axis > 1e-6 * p.step_seconds, there) << row.mesh;
      sum += p.split.exposed.*axis;
    }
    EXPECT_NEAR(sum, p.split.exposed_communication, 1e-9 * p.step_seconds) << row.mesh;
    for (const StageRecord& stage : p.stages) {
      double of_stage = 0;
      for (const auto axis : axis_parts) of_stage += stage.split.exposed.*axis;
      EXPECT_NEAR(of_stage, stage.split.exposed_communication, 1e-9 * p.step_seconds) << row.mesh;
    }
    EXPECT_THAT(render_text(run_scenario(scenario_of(text))),
                HasSubstr("Exposed communication by axis of the mesh"));
  }
}

// Parameters that are gathered for each micro-batch take less memory and more traffic.
TEST(Mesh, ReshardsItsParametersInAPipelineWhenAsked) {
  const auto run = [](const std::string& fsdp) {
    return run_scenario(
               scenario_of(gpt("gpus: 8\nplatform: dgx-a100-80gb\nparallel: {pipeline: 2}\n"
                               "strategies: [fsdp: {version: 2" +
                               fsdp + "}]\n")))
        .predictions.at(0);
  };
  const Prediction kept = run(""), given_back = run(", reshard_in_pipeline: true");
  EXPECT_LT(given_back.memory.allocated, kept.memory.allocated);
  EXPECT_GT(given_back.traffic.front().total_bytes, kept.traffic.front().total_bytes);
  EXPECT_GE(given_back.step_seconds, kept.step_seconds);
}

// With return_outputs the last stage keeps the logits of all micro-batches instead of one: 256
// tokens and 51200 words in two bytes.
TEST(Mesh, KeepsTheLogitsThatAPipelineReturns) {
  const auto last = [](const std::string& more) {
    return run_scenario(
               scenario_of(gpt("gpus: 8\nplatform: dgx-a100-80gb\nparallel: {pipeline: {stages: 4" +
                               more + "}}\n")))
        .predictions.at(0)
        .stages.back()
        .memory.allocated;
  };
  const double logits = 256.0 * 51200 * 2;
  const double more = last(", return_outputs: true") - last("");
  EXPECT_GT(more, 14 * logits);
  EXPECT_LT(more, 32 * logits);  // besides, the logits are concatenated into one tensor
}

const std::string mixture =
    "model: deepseek-v2-lite\nmodel_parameters: {layers: 2, hidden: 2048, heads: 16, mlp: 4096, "
    "expert_mlp: 1408, "
    "experts: 16, sequence: 4096, vocabulary: 8192}\nbatch: {micro: 8, accumulation: 1}\n"
    "precision: amp-bf16\nplatform: dgx-h100\ngpus: 8\n";

// The rank with the most loaded expert sets the pace. Tokens beyond the capacity are dropped, and a
// remark says so.
TEST(Mesh, AnUnevenLoadOfExpertsTakesLonger) {
  const auto run = [](const std::string& expert) {
    return run_scenario(scenario_of(mixture + "parallel: {expert: {size: 8" + expert + "}}\n"));
  };
  const auto step = [&](const std::string& expert) {
    return run(expert).predictions.at(0).step_seconds;
  };
  const double even = step("");
  EXPECT_EQ(step(", load: {zipf: {exponent: 0}}"), even);
  const double some = step(", load: {zipf: {exponent: 0.5}}");
  const double more = step(", load: {zipf: {exponent: 1.5}}");
  EXPECT_GT(some, even);
  EXPECT_GT(more, some);
  const std::string hot =
      ", load: {listed: {shares: [16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}}";
  const double hottest = step(hot);
  EXPECT_GT(hottest, even);
  const std::string file = testing::TempDir() + "lockstep_expert_load.txt";
  std::ofstream(file)
      << "# tokens of each expert\n16\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n";
  EXPECT_EQ(step(", load: {listed: {file: " + file + "}}"), hottest);
  std::ofstream(file) << "16\n-1\n";
  EXPECT_THAT(refusal([&] { step(", load: {listed: {file: " + file + "}}"); }),
              HasSubstr("lockstep_expert_load.txt:2:1: '-1' is negative"));
  std::filesystem::remove(file);
  // The model's arithmetic does not depend on the load, so MFU falls as the step grows.
  const auto flops = [&](const std::string& expert) {
    const Prediction p = run(expert).predictions.at(0);
    return p.flops_per_second * p.step_seconds;
  };
  EXPECT_NEAR(flops(hot), flops(""), 1e-3 * flops(""));
  EXPECT_NEAR(flops(", capacity: 1.25"), flops(""), 1e-3 * flops(""));
  EXPECT_THAT(run(hot + ", capacity: 2").warnings,
              testing::Contains(HasSubstr("% of the tokens' choices of experts")));
  EXPECT_THAT(refusal([&] { step(", load: {listed: {shares: [1, 2]}}"); }),
              AllOf(HasSubstr("2 shares, the model has 16 experts"), HasSubstr("test.yaml:")));
  EXPECT_THAT(refusal([&] { step(", load: {listed: {}}"); }), HasSubstr("`shares` or by a `file`"));
  EXPECT_THAT(refusal([&] { step(", load: {listed: {file: none.txt}}"); }),
              HasSubstr("cannot read 'none.txt'"));
  EXPECT_THAT(refusal([&] { step(", imbalance: 2, load: {zipf: {exponent: 1}}"); }),
              HasSubstr("contradicts `load`"));
}

// Shared experts that run beside the exchanges of tokens hide at most the exposed time of these
// exchanges.
TEST(Mesh, SharedExpertsRunBesideTheExchangesOfTokens) {
  const auto run = [](const std::string& expert) {
    return run_scenario(scenario_of(mixture + "parallel: {expert: {size: 8" + expert + "}}\n"))
        .predictions.at(0);
  };
  const Prediction apart = run(""), beside = run(", overlap: shared");
  EXPECT_LT(beside.step_seconds, apart.step_seconds);
  EXPECT_LT(beside.split.exposed.expert, apart.split.exposed.expert);
  EXPECT_GT(beside.step_seconds, apart.step_seconds - apart.split.exposed.expert);
  EXPECT_THAT(refusal([] {
                run_scenario(scenario_of(
                    "model: mixtral\nmodel_parameters: {layers: 1, hidden: 512, heads: 4, mlp: "
                    "256, kv_heads: 4}\n"
                    "gpus: 8\nprecision: amp-bf16\nplatform: dgx-h100\nbatch: {micro: 1}\n"
                    "parallel: {expert: {size: 8, overlap: shared}}\n"));
              }),
              HasSubstr("no experts that see every token"));
}

// A convolutional network cannot be divided among tensor ranks, but into stages.
TEST(Mesh, OfConvolutionalNetworksIsAPipeline) {
  EXPECT_THAT(refusal([] { expand(scenario_of("gpus: 8\nparallel: {tensor: 2}\n")); }),
              AllOf(HasSubstr("parallel.tensor"), HasSubstr("resnet")));
  EXPECT_EQ(expand(scenario_of("gpus: 8\nbatch: {micro: 2, accumulation: 8}\n"
                               "parallel: {pipeline: 4}\n"))
                .front()
                .job.parts->size(),
            4u);
}

}  // namespace
}  // namespace lockstep::mesh_test
