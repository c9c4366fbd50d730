// Verbs of the measuring half (calibrate/), declared here so that `lockstep --help` shows them.
//
//   lockstep calibrate --models resnet50 -o my-profile      measures layers here
//   lockstep calibrate collectives -o my-profile            measures collectives here
//   lockstep train --help                                   really trains
//   lockstep closed-loop --quick                            calibrate, predict, train, compare
//   lockstep acceptance -o FOLDER                           measures a lent machine
//
// The program lockstep-calibrate, which links LibTorch, executes `calibrate` and `train`: this
// process becomes that program, which parses the command line a second time. `closed-loop` and
// `acceptance` need both halves and start lockstep-calibrate as a child.
#include "launch/measuring.hpp"

#include "acceptance/options.hpp"
#include "cli/declarations.hpp"
#include "cli/verb.hpp"
#include "closed_loop/closed_loop.hpp"
#include "closed_loop/options.hpp"

namespace lockstep {

namespace {

// Option values as texts; this program reads them only for --help.
struct MeasuringText {
  LayersText layers;
  CollectivesText collectives;
};

// Each verb is declared by a function of the measuring half, so that both programs have the same
// options.
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
