// Does `run` report the reached accuracy, and does it continue an interrupted study?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "calibrate/command.hpp"

namespace lockstep::accuracy_command_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Study {
  RunFolder folder;
  std::string scenario = R"(name: A small study
model: lenet5
dataset: {samples: 640, epochs: 1}
batch: {per_gpu: 16}
optimizer: {momentum: 0.9}
platform: g5.12xlarge
gpus: [1, 2]
strategies:
  - ddp
  - fsdp
  - parameter_server: {consistency: async}
convergence: {data: synthetic, seeds: 2, evaluations: 4, test_samples: 100, target: 50%)";

  // With `for_itself` a test has a cache of its own; all tests with `for_others` share one.
  enum class Keeps { for_itself, for_others };
  explicit Study(const std::string& more = "}\n", Keeps keeps = Keeps::for_others)
      : more_(more), keeps_(keeps) {}
  explicit Study(Keeps keeps) : Study("}\n", keeps) {}
  // Starts the command. The reference is valid until the next call.
  Command& run(const std::string& arguments = "--json", const std::string& before = "",
               const std::string& verb = "run") {
    command_.emplace(verb + " " + file() + " " + arguments,
                     "export XDG_CACHE_HOME=" + cache() +
                         " LOCKSTEP_CALIBRATE=" + LOCKSTEP_CALIBRATE + "; " + before,
                     "> out 2> err", LOCKSTEP_PROGRAM);
    return *command_;
  }
  // The page of `report`; "" when it failed.
  std::string page() {
    run("-o -", "", "report");
    return command_->wait() == 0 ? command_->out() : "";
  }
  std::string file() const {
    std::ofstream(folder.file("study.yaml")) << scenario << more_;
    return folder.file("study.yaml").string();
  }
  std::size_t kept() const {
    std::size_t count = 0;
    std::error_code error;
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(folder.file("cache"), error)) {
      count += file.path().extension() == ".json";
    }
    return count;
  }

 private:
  // The shared cache lies in the working folder, because every test must leave the temporary folder
  // as it was.
  struct Common {
    const std::filesystem::path path =
        std::filesystem::current_path() / fmt::format("kept-trainings-{}", getpid());
    Common() { std::filesystem::create_directories(path); }
    ~Common() { std::filesystem::remove_all(path); }
  };
  std::string cache() const {
    static const Common common;  // a training takes a second, mostly for LibTorch's start
    return keeps_ == Keeps::for_itself ? folder.file("cache").string() : common.path.string();
  }

  std::string more_;
  Keeps keeps_;
  std::optional<Command> command_;
};

TEST(Accuracy, IsTrainedInTheSimulatedOrderAndKept) {
  Study study(Study::Keeps::for_itself);
  Command& first = study.run();
  ASSERT_EQ(first.wait(), 0) << first.err();
  const std::string answer = first.out();
  const json predictions = json::parse(answer).at("predictions");
  ASSERT_EQ(predictions.size(), 6u);
  for (const json& p : predictions) {
    const json& a = p.at("accuracy");
    EXPECT_EQ(a.at("seeds"), 2);
    ASSERT_EQ(a.at("curve").size(), 4u);
    EXPECT_GT(a.at("mean"), 0.15) << p.at("strategy");  // with ten classes, after 40 updates
    // The curve ends when the predicted run ends.
    EXPECT_NEAR(a.at("curve").back().at("seconds").get<double>(),
                p.at("total_seconds").get<double>(), 0.06 * p.at("total_seconds").get<double>());
  }
  // DDP and FSDP learn the same. So does an asynchronous server with one worker, because nothing is
  // stale. Three different trainings are left.
  EXPECT_EQ(predictions[0].at("accuracy").at("mean"), predictions[2].at("accuracy").at("mean"));
  EXPECT_EQ(predictions[1].at("accuracy").at("mean"), predictions[3].at("accuracy").at("mean"));
  EXPECT_EQ(predictions[0].at("accuracy").at("mean"), predictions[4].at("accuracy").at("mean"));
  EXPECT_NE(predictions[1].at("accuracy").at("curve"), predictions[5].at("accuracy").at("curve"));

  // A second run trains nothing. Without the cache it trains and gives the same result.
  const std::size_t kept = study.kept();
  EXPECT_GE(kept, 6u);
  Command& again = study.run();
  ASSERT_EQ(again.wait(), 0);
  EXPECT_EQ(again.out(), answer);
  EXPECT_EQ(study.kept(), kept);
  std::filesystem::remove_all(study.folder.file("cache"));
  Command& fresh = study.run();
  ASSERT_EQ(fresh.wait(), 0);
  EXPECT_EQ(fresh.out(), answer);
}

// With one worker nothing is stale, so weighting by age changes nothing: three different trainings
// with two seeds each.
TEST(Accuracy, IsTrainedOnceWhereOnlyNamesDiffer) {
  Study study(Study::Keeps::for_itself);
  study.scenario.replace(
      study.scenario.find("  - ddp\n  - fsdp\n"), 17,
      "  - {parameter_server: {consistency: async, weighting: age}, label: age}\n"
      "  - {parameter_server: {consistency: async, weighting_strength: 0.7}, "
      "label: none}\n");
  Command& command = study.run();
  ASSERT_EQ(command.wait(), 0) << command.err();
  EXPECT_EQ(study.kept(), 6u);
}

TEST(Accuracy, IsSaidInATableAndASentence) {
  Study study;
  Command& command = study.run("", "");
  ASSERT_EQ(command.wait(), 0) << command.err();
  EXPECT_THAT(command.out(), HasSubstr("really trained in the simulated order (2 seeds)"));
  EXPECT_THAT(command.out(), testing::AnyOf(HasSubstr("reaches 50.0 % first"),
                                            HasSubstr("No point reaches 50.0 % with every seed.")));
}

// The page's scripts draw accuracy over time, and against time and price (.ci/nightly pages). This
// test checks the data from which they draw.
TEST(Accuracy, IsInThePagesDataWithTimeAndPrice) {
  Study study;
  const std::string page = study.page();
  EXPECT_THAT(page, HasSubstr("nothing is both faster and more accurate"));
  const std::string mark = "id=\"data\">";
  const std::size_t begin = page.find(mark) + mark.size();
  const json chapter =
      json::parse(page.substr(begin, page.find("</script>", begin) - begin)).at("chapters").at(0);
  const json& predictions = chapter.at("result").at("predictions");
  ASSERT_EQ(predictions.size(), 6U);
  EXPECT_TRUE(chapter.at("tables").contains("accuracy"));
  for (const json& prediction : predictions) {
    const json& accuracy = prediction.at("accuracy");
    EXPECT_GT(accuracy.at("curve").back().at("seconds"), 0);
    EXPECT_LE(accuracy.at("interval")[0], accuracy.at("mean"));
    EXPECT_GE(accuracy.at("interval")[1], accuracy.at("mean"));
    EXPECT_GT(prediction.at("total_seconds"), 0);
    EXPECT_GT(prediction.at("dollars"), 0);
  }
}

TEST(Accuracy, DependsOnEveryOption) {
  Study study("");
  const std::string common = "synthetic, learning_rate: 0.02";
  study.scenario.replace(study.scenario.find("  - ddp"), 17, "");
  study.scenario.replace(study.scenario.find("gpus: [1, 2]"), 12, "gpus: 2");
  study.scenario.replace(study.scenario.find("synthetic, seeds"), std::string::npos, "");
  const auto accuracy = [&](const std::string& options) {
    Study one(options + "}\n");
    one.scenario = study.scenario;
    Command& command = one.run();
    EXPECT_EQ(command.wait(), 0) << command.err();
    return json::parse(command.out()).at("predictions").at(0).at("accuracy");
  };
  const json usual = accuracy(common + ", seeds: 1, evaluations: 2, test_samples: 200");
  for (const std::string other :
       {"synthetic, learning_rate: 0.05, seeds: 1, evaluations: 2, test_samples: 200",
        "synthetic, learning_rate: 0.02, scaling: linear, seeds: 1, evaluations: 2, test_samples: "
        "200",
        "synthetic, learning_rate: 0.02, scaling: square_root, seeds: 1, evaluations: 2, "
        "test_samples: 200",
        "synthetic, learning_rate: 0.02, momentum_at: worker, seeds: 1, evaluations: 2, "
        "test_samples: 200",
        "synthetic, learning_rate: 0.02, schedule: cosine, seeds: 1, evaluations: 2, test_samples: "
        "200",
        "synthetic, learning_rate: 0.02, schedule: steps, seeds: 1, evaluations: 2, test_samples: "
        "200",
        "synthetic, learning_rate: 0.02, warm_up_epochs: 0.5, seeds: 1, evaluations: 2, "
        "test_samples: 200",
        "synthetic, learning_rate: 0.02, initialisation: kaiming, seeds: 1, evaluations: 2, "
        "test_samples: 200",
        "synthetic, learning_rate: 0.02, tune: {momentum: [0, 0.5]}, seeds: 1, evaluations: 2, "
        "test_samples: 200",
        "synthetic, learning_rate: 0.02, seeds: 2, evaluations: 2, test_samples: 200",
        "synthetic, learning_rate: 0.02, seeds: 1, evaluations: 3, test_samples: 200",
        "synthetic, learning_rate: 0.02, seeds: 1, evaluations: 2, test_samples: 170",
        "synthetic, learning_rate: 0.02, seeds: 1, evaluations: 2, test_samples: 200, target: "
        "10%"}) {
    EXPECT_NE(accuracy(other), usual) << other;
  }
}

// Each of these strategies is a training of its own, because the strategy or the step changes
// gradients.
TEST(Accuracy, DependsOnWhatIsDoneToGradients) {
  const auto entries = [](const std::string& options) {
    return "strategies:\n" + options +
           "convergence: {data: synthetic, seeds: 1, evaluations: 1, test_samples: 100}\n";
  };
  Study study("", Study::Keeps::for_itself);
  study.scenario.replace(study.scenario.find("gpus: [1, 2]"), 12, "gpus: 2");
  study.scenario.replace(study.scenario.find("samples: 640"), 12, "samples: 160");
  study.scenario.replace(
      study.scenario.find("strategies:"), std::string::npos,
      entries("  - parameter_server\n"
              "  - {parameter_server: {push_compression: fp16}, label: halves}\n"
              "  - {parameter_server: {push_compression: {top_k: {share: 5%}}}, "
              "label: largest}\n"
              "  - {parameter_server: {exchange_every: 2}, label: rarer}\n"
              "  - {local_sgd: {every: 2}, label: local}\n"
              "  - {local_sgd: {every: 2, average_state: true}, label: state}\n"));
  ASSERT_EQ(study.run().wait(), 0);
  EXPECT_EQ(study.kept(), 6u);
  for (const char* other : {"--json --set gradient_clipping=0.1", "--json --set batch.micro=8"}) {
    ASSERT_EQ(study.run(other).wait(), 0);
  }
  EXPECT_EQ(study.kept(), 18u);
}

// For synchronous ranks every communication hook with every option is a training of its own, except
// hooks that only split the same gradients into other messages.
TEST(Accuracy, DependsOnWhatIsDoneToTheMean) {
  const std::vector<std::string> others{
      "comm_hook: fp16-compress",
      "comm_hook: bf16-compress",
      "comm_hook: powersgd",
      "comm_hook: {powersgd: {rank: 2}}",
      "comm_hook: top-k",
      "comm_hook: {top-k: {fraction: 5%}}",
      "comm_hook: {top-k: {fraction: 5%}}, first_bucket_size: 4 KiB",
      "comm_hook: random-k",
      "comm_hook: sign",
      "comm_hook: qsgd",
      "comm_hook: onebit",
  };
  const std::vector<std::string> known{
      "{ddp: {first_bucket_size: 4 KiB}}",
      "{ddp: {gradient_element_size: 2 B}}",  // the size of bf16-compress
      "{ddp: {comm_hook: sign, first_bucket_size: 4 KiB}}",
      "{ddp: {comm_hook: powersgd, power_sgd_rank: 2}}",
      "{zero: {offload: {optimizer: host}}}",
  };
  const std::vector<std::string> late{
      "{zero: {offload: {optimizer: host, delayed_update: true}}}",
      "{fsdp: {offload: {optimizer: host, delayed_update: true}}}",
  };
  Study study("", Study::Keeps::for_itself);
  study.scenario.replace(study.scenario.find("gpus: [1, 2]"), 12, "gpus: 2");
  study.scenario.replace(study.scenario.find("samples: 640"), 12, "samples: 160");
  std::string entries = "strategies:\n  - ddp\n";
  int label = 0;
  const auto enter = [&](const std::string& entry) {
    entries += fmt::format("  - {}, label: s{}}}\n", entry.substr(0, entry.size() - 1), label++);
  };
  for (const std::string& options : others) enter("{ddp: {" + options + "}}");
  for (const auto* more : {&known, &late}) {
    for (const std::string& entry : *more) enter(entry);
  }
  study.scenario.replace(
      study.scenario.find("strategies:"), std::string::npos,
      entries + "convergence: {data: synthetic, seeds: 1, evaluations: 1, test_samples: 50}\n");
  Command& command = study.run();
  ASSERT_EQ(command.wait(), 0) << command.err();
  EXPECT_EQ(study.kept(), 1 + others.size() + 1);
  EXPECT_THAT(command.out(), testing::Not(HasSubstr("learnt without")));
}

// For synchronous ranks momentum applies to the clipped mean, for every value of `momentum_at`.
TEST(Accuracy, OfRanksInStepHasTheirOwnOptimizersMomentum) {
  const auto curves = [](const std::string& place) {
    Study study(", momentum_at: " + place + "}\n");
    study.scenario.replace(study.scenario.find("gpus: [1, 2]"), 12, "gpus: 2");
    study.scenario.replace(study.scenario.find("seeds: 2"), 8, "seeds: 1");
    study.scenario.replace(study.scenario.find("batch:"), 0, "gradient_clipping: 0.1\n");
    Command& command = study.run();
    EXPECT_EQ(command.wait(), 0) << command.err();
    std::vector<json> all;
    const json answer = json::parse(command.out());
    for (const json& p : answer.at("predictions")) {
      all.push_back(p.at("accuracy").at("curve"));
    }
    return all;
  };
  const std::vector<json> worker = curves("worker"), server = curves("server");
  ASSERT_EQ(worker.size(), 3u);
  EXPECT_EQ(worker[0], server[0]);  // DDP
  EXPECT_EQ(worker[1], server[1]);  // FSDP
  EXPECT_NE(worker[2], server[2]);  // servers without consistency
}

TEST(Accuracy, SaysWhatItIsLearntWithout) {
  Study study;
  study.scenario.replace(study.scenario.find("  - ddp\n  - fsdp\n"), 17,
                         "  - zero: {offload: {optimizer: host, delayed_update: true, fraction: "
                         "50%}}\n    precision: amp-fp16\n");
  study.scenario.replace(study.scenario.find("seeds: 2"), 8, "seeds: 1");
  Command& command = study.run();
  ASSERT_EQ(command.wait(), 0) << command.err();
  const std::string two =
      "its accuracy is learnt without offload.delayed_update, amp-fp16, which would change it";
  const json predictions = json::parse(command.out()).at("predictions");
  EXPECT_THAT(predictions.at(0).at("notes"), testing::Contains(two));
  EXPECT_THAT(predictions.at(1).at("notes"), testing::Contains(two));
  EXPECT_THAT(predictions.at(2).dump(), testing::Not(HasSubstr("learnt without")));
}

TEST(Accuracy, IsThatOfTheBestRecipeWhereItIsTuned) {
  // A rate of a million diverges, and 1e-9 learns nothing in 40 updates.
  Study tuned(", tune: {learning_rate: [1e-9, 0.02, 1e6], momentum: 0.5}}\n");
  tuned.scenario.replace(tuned.scenario.find("seeds: 2"), 8, "seeds: 1");
  Command& command = tuned.run();
  ASSERT_EQ(command.wait(), 0) << command.err();
  const json answer = json::parse(command.out());
  for (const json& p : answer.at("predictions")) {
    EXPECT_EQ(p.at("accuracy").at("learning_rate"), 0.02);
    EXPECT_EQ(p.at("accuracy").at("momentum"), 0.5);
    EXPECT_EQ(p.at("accuracy").at("diverged"), 0);
  }
}

TEST(Accuracy, IsALimitOfARecommendation) {
  Study study(Study::Keeps::for_itself);
  Command& first = study.run("--min-accuracy 15%", "", "recommend");
  ASSERT_EQ(first.wait(), 0) << first.err();
  const std::string answer = first.out();
  EXPECT_THAT(answer, HasSubstr("  accuracy\n"));
  EXPECT_THAT(answer, HasSubstr("memory and accuracy at once"));
  // The trainings are two seeds each of two synchronous GPUs, of these with gradients in fp16, and
  // of the asynchronous server.
  const std::size_t kept = study.kept();
  EXPECT_EQ(kept, 6u);
  Command& again = study.run("--min-accuracy 15%", "", "recommend");
  ASSERT_EQ(again.wait(), 0);
  EXPECT_EQ(again.out(), answer);
  EXPECT_EQ(study.kept(), kept);
  // `run` finds the same trainings in the cache.
  Command& run = study.run();
  ASSERT_EQ(run.wait(), 0);
  // New are only the trainings of one GPU, and of the server on two GPUs, whose schedule another
  // engine simulates.
  EXPECT_LE(study.kept(), kept + 4);
  const json predictions = json::parse(run.out()).at("predictions");
  EXPECT_THAT(answer,
              HasSubstr(fmt::format("{:.1f} %",
                                    100 * predictions[1].at("accuracy").at("mean").get<double>())));

  Command& never = study.run("--min-accuracy 99.9%", "", "recommend");
  EXPECT_EQ(never.wait(), 3);
  EXPECT_THAT(never.out(), HasSubstr("Nothing meets every limit."));
  EXPECT_THAT(never.out(), HasSubstr("below 99.9 %: DDP on 1 GPU"));
  EXPECT_THAT(study.run("--min-accuracy 0%", "", "recommend").wait(), 2);
  EXPECT_THAT(study.run("--min-accuracy 85", "", "recommend").wait(), 2);

  Study half;
  half.scenario.replace(half.scenario.find("batch:"), 0, "precision: amp-fp16\n");
  Command& halves = half.run("--min-accuracy 15%", "", "recommend");
  EXPECT_EQ(halves.wait(), 0);
  EXPECT_THAT(halves.err(), HasSubstr("its accuracy is learnt without amp-fp16"));

  std::filesystem::create_directories(study.folder.file("a/b"));
  std::filesystem::copy_file(LOCKSTEP_PROGRAM, study.folder.file("a/b/lockstep"));
  Command alone("recommend " + study.file() + " --min-accuracy 15%", "unset LOCKSTEP_CALIBRATE;",
                "> out 2> err", study.folder.file("a/b/lockstep").string());
  EXPECT_EQ(alone.wait(), 2);
  EXPECT_THAT(alone.err(), HasSubstr("recommend: the measuring half is not built"));
  EXPECT_EQ(alone.out(), "");
}

// Six trainings run one after the other; some are done when the command is stopped.
TEST(Accuracy, GoesOnWhereItWasStopped) {
  Study study(Study::Keeps::for_itself);
  study.scenario.replace(study.scenario.find("samples: 640"), 12, "samples: 1280");
  Command& whole = study.run("--json --jobs 1");
  ASSERT_EQ(whole.wait(), 0) << whole.err();
  const std::string answer = whole.out();
  const std::size_t all = study.kept();
  std::filesystem::remove_all(study.folder.file("cache"));
  std::size_t before = 0;
  for (const int number : {SIGINT, SIGTERM}) {
    Command& stopped = study.run("--json --jobs 1");
    ASSERT_TRUE(Command::until([&] { return study.kept() > before; }));
    ::kill(stopped.pid(), number);
    EXPECT_EQ(stopped.wait(), 130);
    EXPECT_EQ(stopped.out(), "");
    EXPECT_FALSE(stopped.run_folder_left());
    const std::size_t kept = study.kept();
    EXPECT_LT(kept, all);
    EXPECT_THAT(stopped.err(), HasSubstr(fmt::format(
                                   "lockstep: interrupted; {} of {} trainings are kept, the same "
                                   "command goes on after them\n",
                                   kept - before, all - before)));
    before = kept;
  }
  Command& rest = study.run("--json --jobs 1");
  ASSERT_EQ(rest.wait(), 0) << rest.err();
  EXPECT_EQ(rest.out(), answer);
  EXPECT_EQ(study.kept(), all);
}

// If the cache has no space, prediction and accuracy are printed all the same.
TEST(Accuracy, WithoutRoomForItsFilesIsAWarning) {
  Study study;
  study.scenario.replace(study.scenario.find("gpus: [1, 2]"), 12, "gpus: 1");
  Command& usual = study.run();
  ASSERT_EQ(usual.wait(), 0);
  const json expected = json::parse(usual.out());
  Command& unkept = study.run("--json", "export XDG_CACHE_HOME=/dev/null;");
  EXPECT_EQ(unkept.wait(), 0);
  EXPECT_EQ(json::parse(unkept.out()).at("predictions"), expected.at("predictions"));
  const std::string warning = "the trained results are not kept: cannot write /dev/null/lockstep/";
  EXPECT_THAT(unkept.err(), HasSubstr("note: " + warning));
  Command& homeless = study.run("--json", "unset XDG_CACHE_HOME HOME;");
  EXPECT_EQ(homeless.wait(), 0);
  EXPECT_THAT(homeless.err(), HasSubstr("are not kept: neither XDG_CACHE_HOME nor HOME is set\n"));
  Command& nowhere = study.run("--json", "export TMPDIR=/nowhere;");
  EXPECT_EQ(nowhere.wait(), 0);
  EXPECT_THAT(nowhere.err(), HasSubstr("note: no accuracy: "));
  const json without = json::parse(nowhere.out()).at("predictions");
  EXPECT_FALSE(without.at(0).contains("accuracy"));
  EXPECT_EQ(without.at(0).at("step_seconds"), expected.at("predictions").at(0).at("step_seconds"));
}

TEST(Accuracy, ThatCannotBeHadIsAWarningOrAnError) {
  Study study;
  std::filesystem::create_directories(study.folder.file("a/b"));
  std::filesystem::copy_file(LOCKSTEP_PROGRAM, study.folder.file("a/b/lockstep"));
  Command alone("run " + study.file(), "unset LOCKSTEP_CALIBRATE;", "> out 2> err",
                study.folder.file("a/b/lockstep").string());
  EXPECT_EQ(alone.wait(), 0);
  EXPECT_THAT(alone.err(), HasSubstr("no accuracy: the measuring half is not built"));
  EXPECT_THAT(alone.out(), HasSubstr("Where the step goes"));
  Study diverging(", learning_rate: 1e6}\n");
  Command& lost = diverging.run();
  EXPECT_EQ(lost.wait(), 0);
  EXPECT_THAT(lost.err(), HasSubstr("2 of 2 seeds diverged"));
  Study nowhere("}\n");
  nowhere.scenario.replace(nowhere.scenario.find("synthetic"), 9, "/nowhere");
  Command& missing = nowhere.run("--jobs 1");
  EXPECT_EQ(missing.wait(), 2);
  const std::string said = "convergence.data: there is no folder '/nowhere'", err = missing.err();
  EXPECT_THAT(err, HasSubstr(said));
  EXPECT_EQ(err.find(said), err.rfind(said)) << "once, not for each training: " << err;
  EXPECT_THAT(missing.err(), HasSubstr("study.yaml:12:"));
  Study misnamed("}\n");
  misnamed.scenario.replace(misnamed.scenario.find("synthetic"), 9, "fashion-mnits");
  Command& named = misnamed.run("--jobs 1");
  EXPECT_EQ(named.wait(), 2);
  EXPECT_THAT(named.err(), HasSubstr("did you mean 'fashion-mnist'?"));
  Study few("}\n");
  Command& too_few = few.run("--jobs 1 --set gpus=2 --set batch.per_gpu=400");
  EXPECT_EQ(too_few.wait(), 2);
  EXPECT_THAT(too_few.err(), HasSubstr("images are no batch of 400 for each of 2 workers"));
  Study endless;
  endless.scenario.replace(endless.scenario.find("dataset: {samples: 640, epochs: 1}\n"), 35, "");
  Command& unknown = endless.run();
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_THAT(unknown.err(), HasSubstr("needs to know how long the run is"));
  Study misspelt(", learning_rat: 0.1}\n");
  Command& wrong = misspelt.run();
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_THAT(wrong.err(), HasSubstr("did you mean 'learning_rate'"));
}

}  // namespace
}  // namespace lockstep::accuracy_command_test
