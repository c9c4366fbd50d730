// `lockstep calibrate`, `lockstep train`: declared here for their help, executed by the measuring
// half, which reads the command line again. `lockstep closed-loop` and `lockstep acceptance` use
// both halves.
#include "launch/measuring.hpp"

#include "acceptance/options.hpp"
#include "cli/declarations.hpp"
#include "cli/verb.hpp"
#include "closed_loop/closed_loop.hpp"
#include "closed_loop/options.hpp"

namespace lockstep {

namespace {

struct MeasuringText {
  LayersText layers;
  CollectivesText collectives;
};

Choice declare_calibrate(CLI::App& app) {
  const auto arguments = std::make_shared<MeasuringText>();
  CLI::App& verb = *declare_layers(app, arguments->layers);
  declare_collectives(verb, arguments->collectives);
  return {&verb, [arguments]() -> int { become_measuring_program("calibrate"); }};
}
const Verb calibrate{VerbGroup::measurements, declare_calibrate};

Choice declare_training(CLI::App& app) {
  const auto arguments = std::make_shared<TrainText>();
  return {declare_train(app, *arguments),
          [arguments]() -> int { become_measuring_program("train"); }};
}
const Verb train{VerbGroup::measurements, declare_training};

Choice declare_loop(CLI::App& app) {
  const auto arguments = std::make_shared<ClosedLoopText>();
  return {declare_closed_loop(app, *arguments),
          [arguments] { return closed_loop_command(closed_loop_options(*arguments)); }};
}
const Verb closed_loop{VerbGroup::measurements, declare_loop};

Choice declare_acceptance_verb(CLI::App& app) {
  const auto arguments = std::make_shared<AcceptanceText>();
  return {declare_acceptance(app, *arguments),
          [arguments] { return acceptance_command(acceptance_options(*arguments)); }};
}
const Verb acceptance{VerbGroup::measurements, declare_acceptance_verb};

}  // namespace

}  // namespace lockstep
