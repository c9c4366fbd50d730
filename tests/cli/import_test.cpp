// Do import verbs print, or write their file, and report mistakes with their places?
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "process.hpp"
#include "source_dir.hpp"

namespace lockstep::import_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string data(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR "/tests/imports/data/") + name;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

const std::vector<std::string> of_lenet{"--model", "lenet5", "--batch", "32"};

std::vector<std::string> trace(const std::string& file, const std::vector<std::string>& more) {
  std::vector<std::string> words{"import-trace", file};
  words.insert(words.end(), of_lenet.begin(), of_lenet.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(ImportTrace, PrintsAProfileOrAddsToOne) {
  const Outcome printed = lockstep(trace(data("lenet5_gpu.json"), {"--as", "h100-sxm5-80gb"}));
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("device: h100-sxm5-80gb"), HasSubstr("model: lenet5"),
                                 testing::ContainsRegex("name: conv1\n *forward: 42 us")));
  EXPECT_THAT(printed.err, HasSubstr("2 steps, medians: step "));

  const std::string folder = test_folder().file("traced");
  const Outcome kept =
      lockstep(trace(data("lenet5_gpu.json"), {"--as", "h100-sxm5-80gb", "-o", folder}));
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_EQ(kept.out, "");
  EXPECT_THAT(kept.err, HasSubstr("wrote " + folder + "/profile.yaml"));
  EXPECT_EQ(text_of(folder + "/profile.yaml"), printed.out);
}

TEST(ImportTrace, ComparesItsLayersWithTheModel) {
  const std::vector<std::string> on{"--as", "h100-sxm5-80gb", "--compare"};
  const auto compared = [&](std::vector<std::string> more) {
    more.insert(more.begin(), on.begin(), on.end());
    const Outcome outcome = lockstep(trace(data("lenet5_gpu.json"), more));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  };
  EXPECT_THAT(compared({"kinds"}).out,
              AllOf(testing::StartsWith("Device time of lenet5's layers"),
                    testing::ContainsRegex("\nkind +layers +forward +modelled"),
                    testing::ContainsRegex("\nconv 5 x 5 +2 "), HasSubstr("\nall ")));
  EXPECT_THAT(compared({"layers"}).out, testing::ContainsRegex("\nconv1 +42.0 us "));
  EXPECT_THAT(compared({"layers", "--csv"}).out,
              AllOf(testing::StartsWith("layer,forward_s,forward_modelled_s,forward_error,"
                                        "backward_s,backward_modelled_s,backward_error\n"),
                    HasSubstr("\nconv1,4.2e-05,")));
  EXPECT_THAT(compared({"kinds", "--markdown"}).out, testing::StartsWith("| kind | layers |"));
  const std::string folder = test_folder().file("compared");
  const Outcome both = compared({"kinds", "-o", folder});
  EXPECT_THAT(both.out, HasSubstr("conv 5 x 5"));
  EXPECT_THAT(text_of(folder + "/profile.yaml"), HasSubstr("model: lenet5"));
}

TEST(ImportTrace, WrongInputIsRefused) {
  const auto refused = [](const std::vector<std::string>& words, const std::string& reason) {
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(reason));
  };
  const std::string text = text_of(data("lenet5_gpu.json"));
  refused(trace(test_folder().write("cut.json", text.substr(0, text.size() / 2)), {}),
          "the JSON text breaks off here");
  refused(trace("none.json", {}), "none.json: cannot be read");
  refused(trace(data("lenet5_gpu.json"), {"--as", "h100"}),
          "--as: unknown device 'h100'; allowed: ");
  refused(trace(data("lenet5_gpu.json"), {"--precision", "fp31"}), "did you mean 'fp32'?");
  refused({"import-trace", data("lenet5_gpu.json"), "--model", "lenet5"}, "--batch");
  refused(trace(data("lenet5_gpu.json"), {"--compare", "kinds"}), "--compare: needs --as");
  refused(trace(data("lenet5_gpu.json"), {"--as", "t4", "--compare", "kind"}), "--compare");
  refused(trace(data("lenet5_gpu.json"), {"--csv"}), "--csv: is for the table of --compare");
  refused({"import-trace", data("lenet5_gpu.json"), "--model", "vgg11", "--batch", "32"},
          "lenet5_gpu.json:");
}

TEST(ImportCollectives, PrintsCurvesOrAddsThem) {
  const Outcome printed = lockstep({"import-collectives", data("all_reduce_h100.txt")});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, AllOf(testing::StartsWith("collectives:\n"),
                                 HasSubstr("collective: all_reduce"), HasSubstr("ranks: 4")));
  EXPECT_THAT(printed.err, HasSubstr("all_reduce, 4 ranks, 2 nodes: "));
  EXPECT_THAT(printed.err, HasSubstr("--as says which device file that is"));

  const std::string folder = test_folder().file("curves");
  const std::vector<std::string> more{"--as", "h100-sxm5-80gb", "-o", folder};
  for (const char* file : {"all_reduce_h100.txt", "reduce_scatter.json"}) {
    std::vector<std::string> words{"import-collectives", data(file)};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome kept = lockstep(words);
    EXPECT_EQ(kept.code, 0) << kept.err;
    EXPECT_EQ(kept.out, "");
    EXPECT_THAT(kept.err, HasSubstr("wrote " + folder + "/profile.yaml"));
  }
  EXPECT_THAT(text_of(folder + "/profile.yaml"),
              AllOf(HasSubstr("device: h100-sxm5-80gb"), HasSubstr("collective: all_reduce"),
                    HasSubstr("collective: reduce_scatter"), HasSubstr("name: nccl")));
}

TEST(ImportCollectives, WrongInputIsRefused) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& reason) {
    std::vector<std::string> words{"import-collectives"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(reason));
  };
  std::string text = text_of(data("all_reduce_h100.txt"));
  text.replace(text.find("Rank  1 Group"), 7, "Rank  0");
  refused({test_folder().write("twice.txt", text)}, "twice.txt:6:10: rank 0 is listed twice");
  refused({"none.txt"}, "none.txt: cannot be read");
  refused({test_folder().write("prose.txt", "no table here\n")}, "no measurements");
  refused({data("all_reduce_h100.txt"), "--as", "h100-sxm5-80g"}, "did you mean 'h100-sxm5-80gb'?");
  refused({}, "files");
  const std::string folder = test_folder().file("other");
  const std::string curves = data("all_reduce_h100.txt");
  EXPECT_EQ(lockstep({"import-collectives", curves, "--as", "l4", "-o", folder}).code, 0);
  refused({curves, "--as", "t4", "-o", folder},
          folder + "/profile.yaml: device: the profile there is of 'l4', not of 't4'");
}

TEST(ImportModel, PrintsAModelThatAScenarioCanName) {
  const std::string config = data("hugging_face/gpt2.json");
  const Outcome printed = lockstep({"import-model", config});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("base: gpt\n"));
  EXPECT_THAT(printed.err, HasSubstr("gpt2.json (GPT2LMHeadModel): 124439808 parameters\n"));

  const std::string model = test_folder().write("imported.yaml", "");
  const Outcome kept = lockstep({"import-model", config, "--parameters", "124439808", "-o", model});
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_EQ(kept.out, "");
  EXPECT_THAT(text_of(model), HasSubstr("published: {parameters: 124439808"));
  const Outcome run =
      lockstep({"run", test_folder().write("names_it.yaml", "name: imported\nmodel: " + model +
                                                                "\nplatform: dgx-a100-80gb\n"
                                                                "gpus: 1\nbatch: {per_gpu: 1}\n"
                                                                "strategies: [ddp]\n")});
  EXPECT_EQ(run.code, 0) << run.err;
}

TEST(ImportModel, WrongInputIsRefused) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& reason) {
    std::vector<std::string> words{"import-model"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = lockstep(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(reason));
  };
  const std::string config = data("hugging_face/gpt2.json");
  refused({config, "--parameters", "124439809"}, "has 124439808 parameters, not 124439809");
  refused({config, "--parameters", "0"}, "--parameters");
  refused({config, "-o", config}, "a model file's name ends in .yaml");
  refused({"none.json"}, "none.json: ");
  refused({}, "file");
  for (const char* text : {"hello", "[1, 2]", "\x7\x1hello", ""})
    refused({test_folder().write("model.onnx", text)},
            "model.onnx: is no config.json of Hugging Face; python -m lockstep.import_model takes "
            "ONNX models and PyTorch modules");
}

// Times measured on one device say nothing about another device, so the profile is refused.
TEST(Profile, OfAnotherDeviceIsRefusedWhereTheScenarioNamesIt) {
  const std::string profile = LOCKSTEP_SOURCE_DIR "/tests/costs/data/profile_small.yaml";
  const auto run = [&](const std::string& name, const std::string& platform) {
    return lockstep(
        {"run", test_folder().write(name, scenario_text("platform: " + platform +
                                                        "\nprofile: " + profile + "\n"))});
  };
  const Outcome other = run("other_device.yaml", "cpu-loopback-x2");
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.out, "");
  EXPECT_TRUE(testing::internal::RE::PartialMatch(
      other.err, testing::internal::RE("other_device.yaml:[0-9]+:10: profile: ")))
      << other.err;
  EXPECT_THAT(other.err, HasSubstr("profile_small.yaml' was measured on 'a100-sxm4-80gb', and "
                                   "cpu-loopback-x2 has 'cpu-core'"));
  EXPECT_EQ(run("same_device.yaml", "dgx-a100-80gb").code, 0);
}

}  // namespace
}  // namespace lockstep::import_test
