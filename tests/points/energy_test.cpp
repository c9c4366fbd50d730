// Does the energy of a run follow from board power, time and load, and the CO2 from the grid?
#include "questions/run.hpp"
#include "results/render.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::energy_test {
namespace {

using testing::HasSubstr;

const std::string run =
    "model: resnet18\ngpus: [1, 4]\nstrategies: [ddp]\ndataset: {steps: 100000}\n";

TEST(Energy, LiesBetweenBusyBoardsAndBoardsAtTheirLimit) {
  const auto record =
      run_scenario(scenario_of(run + "energy: {overhead: 1.5, carbon_intensity: 200}\n"));
  const double watts = load_device("a100-sxm4-80gb").board_power;
  ASSERT_EQ(watts, 400);
  for (const Prediction& p : record.predictions) {
    ASSERT_TRUE(p.energy && p.energy->carbon_kilograms);
    const double most = 1.5 * watts * p.gpus * p.total_seconds / 3.6e6;  // joules in a kWh
    EXPECT_NEAR(p.energy->kilowatt_hours.high, most, 1e-9 * most);
    EXPECT_NEAR(p.energy->kilowatt_hours.low, p.gpu_utilisation * most, 1e-9 * most);
    EXPECT_NEAR(p.energy->carbon_kilograms->high, 0.2 * most, 1e-9 * most);
  }
  EXPECT_THAT(render_text(record), HasSubstr("CO2, busy"));
}

TEST(Energy, IsSaidWhereItIsAskedFor) {
  EXPECT_FALSE(run_scenario(scenario_of(run)).predictions.at(0).energy);
  const auto plain = run_scenario(scenario_of(run + "energy: {}\n"));
  ASSERT_TRUE(plain.predictions.at(0).energy);
  EXPECT_FALSE(plain.predictions.at(0).energy->carbon_kilograms);
  EXPECT_THAT(render_text(plain), testing::Not(HasSubstr("CO2")));
  const auto unknown = run_scenario(read_scenario_text(
      "name: x\nmodel: lenet5\nplatform: cpu-loopback-x2\nbatch: {per_gpu: 8}\nprecision: fp32\n"
      "dataset: {steps: 10}\ngpus: 1\nstrategies: [ddp]\noptimizer: {name: sgd}\nenergy: {}\n",
      "test.yaml"));
  EXPECT_FALSE(unknown.predictions.at(0).energy);
  EXPECT_THAT(unknown.predictions.at(0).notes, testing::Contains(HasSubstr("board_power")));
}

TEST(Energy, NeedsTheLengthOfTheRunAndOneKindOfDevice) {
  EXPECT_THAT(
      refusal([] { scenario_of("model: resnet18\ngpus: 1\nstrategies: [ddp]\nenergy: {}\n"); }),
      HasSubstr("energy: needs the length of the run"));
  EXPECT_THAT(
      refusal([] {
        scenario_of(run + "energy: {}\nstragglers: {other_devices: [{nodes: [0], device: t4}]}\n");
      }),
      HasSubstr("energy: is not told apart by device"));
}

}  // namespace
}  // namespace lockstep::energy_test
