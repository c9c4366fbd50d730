// How a scenario file is written: one declaration per field (core/fields.hpp);
// docs/scenario-format.md is generated from it.
#pragma once

#include "core/fields.hpp"
#include "hardware/machine_file.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

template <class Visitor>
void describe(Visitor& v, InputSpec& i) {
  v.field({.name = "image",
           .doc = "Channels, height, width of one image; empty = the model's own.",
           .min = 1,
           .max = 65536,
           .min_items = 3,
           .max_items = 3,
           .or_empty = true},
          i.image);
  v.field({.name = "sequence",
           .doc = "Tokens of one sample; 0 = the model's own.",
           .min = 0,
           .max = 10e6},
          i.sequence);
  v.field({.name = "classes",
           .doc = "Classes the network tells apart; 0 = the model's own.",
           .min = 0,
           .max = 10e6},
          i.classes);
}

template <class Visitor>
void describe(Visitor& v, DatasetSpec& d) {
  v.field({.name = "samples",
           .doc = "Training samples of one epoch; with it the whole run is priced.",
           .unit = Dimension::count,
           .min = 0,
           .max = 1e13},
          d.samples);
  v.field({.name = "epochs", .doc = "Passes over the data.", .min = 0, .max = 1e6}, d.epochs);
  v.field({.name = "tokens",
           .doc = "Tokens of the whole run, instead of samples and epochs.",
           .unit = Dimension::count,
           .min = 0,
           .max = 1e16},
          d.tokens);
  v.field({.name = "steps",
           .doc = "Optimizer steps of the whole run, instead.",
           .unit = Dimension::count,
           .min = 0,
           .max = 1e13},
          d.steps);
  v.field({.name = "time",
           .doc = "Time that the whole run trains without failures, instead.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e12},
          d.seconds);
  v.check([&](auto report) {
    const char* given = d.samples > 0 ? "samples" : "";
    for (const auto& [name, value] :
         {std::pair{"tokens", d.tokens}, {"steps", d.steps}, {"time", d.seconds}}) {
      if (value <= 0) continue;
      if (*given != '\0') {
        report(name, std::string("contradicts ") + given, "give the length of the run once");
      }
      given = name;
    }
    if (d.epochs != 1 && d.samples == 0) {
      report("epochs", "has no effect without samples", "give samples, or leave epochs out");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, BatchSpec& b) {
  constexpr double most = 1e9;
  v.field({.name = "global",
           .doc = "Samples of one optimizer step over all GPUs (strong scaling).",
           .min = 0,
           .max = most,
           .several = true},
          b.global);
  v.field({.name = "per_gpu",
           .doc = "Samples of one optimizer step on one GPU (weak scaling).",
           .min = 0,
           .max = most,
           .several = true},
          b.per_gpu);
  v.field({.name = "micro",
           .doc = "Samples of one forward and backward on one GPU.",
           .min = 0,
           .max = most,
           .several = true},
          b.micro);
  v.field({.name = "accumulation",
           .doc = "Micro-batches of one optimizer step; 0 = what follows from the others, or 1.",
           .min = 0,
           .max = 1e6},
          b.accumulation);
  v.check([&](auto report) {
    if (b.global > 0 && b.per_gpu > 0) report("per_gpu", "contradicts global", "give one of them");
    if (b.global == 0 && b.per_gpu == 0 && b.micro == 0) {
      report("", "says no batch size", "give one of global, per_gpu, micro");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, DataLoading& d) {
  v.field(
      {.name = "on_device",
       .doc = "Batches already lie in device memory (synthetic data, a loader on the GPU): no copy "
              "from the host."},
      d.on_device);
  v.field({.name = "samples_per_second",
           .doc = "Samples the input pipeline delivers to one GPU; 0 = never the bound.",
           .unit = Dimension::count,
           .min = 0,
           .max = 1e12},
          d.samples_per_second);
}

template <class Visitor>
void describe(Visitor& v, StrategyEntry& s) {
  v.location(s.where);
  v.alternative({.name = "strategy", .doc = "How the GPUs work together."}, s.options);
  v.field(
      {.name = "label", .doc = "Name in tables and in `measured`; empty = the strategy's name."},
      s.label);
  v.field({.name = "precision", .doc = "Overrides the scenario's precision."}, s.precision);
  v.field({.name = "activation_checkpointing", .doc = "Overrides the scenario's setting."},
          s.activation_checkpointing);
  v.field({.name = "recompute", .doc = "Overrides the scenario's setting."}, s.recompute);
}

template <class Visitor>
void describe(Visitor& v, TuningSpec& t) {
  v.field({.name = "learning_rate",
           .doc = "Rates to try, before scaling.",
           .min = 1e-12,
           .max = 1e6,
           .min_items = 1,
           .max_items = 100,
           .single = true},
          t.learning_rate);
  v.field({.name = "momentum",
           .doc = "Momenta to try.",
           .min = 0,
           .max = 1,
           .min_items = 1,
           .max_items = 100,
           .single = true},
          t.momentum);
}

template <class Visitor>
void describe(Visitor& v, ConvergenceSpec& c) {
  v.location(c.where);
  v.field(
      {.name = "data",
       .doc = "fashion-mnist (Debian's package), synthetic, or a folder with the files of MNIST, "
              "Fashion-MNIST or CIFAR-10."},
      c.data);
  v.field({.name = "learning_rate",
           .doc = "At the beginning.",
           .min = 1e-12,
           .max = 1e6,
           .several = true},
          c.learning_rate);
  v.field({.name = "scaling",
           .doc = "The learning rate times the number of workers (linear), or its square root."},
          c.scaling);
  v.field({.name = "momentum_at", .doc = "Who keeps the optimizer's momentum."}, c.momentum_at);
  v.field({.name = "schedule",
           .doc = "constant; cosine: to nothing; steps: a tenth at half of the run, a hundredth at "
                  "three quarters."},
          c.schedule);
  v.field({.name = "warm_up_epochs",
           .doc = "In these the rate grows from nothing.",
           .min = 0,
           .max = 1e6},
          c.warm_up_epochs);
  v.field(
      {.name = "initialisation",
       .doc = "layers: each layer's own default; kaiming: convolutions as torchvision's VGG and "
              "ResNet begin."},
      c.initialisation);
  v.field({.name = "running_statistics",
           .doc = "Batch norm's, of the network that is judged: those of the first worker, or "
                  "untouched, as on a server that is pushed nothing but gradients."},
          c.running_statistics);
  v.field({.name = "seeds",
           .doc = "Runs of each point, with other initial values and another order of the data.",
           .min = 1,
           .max = 1000},
          c.seeds);
  v.field({.name = "evaluations",
           .doc = "How often the test set is classified in a run.",
           .min = 1,
           .max = 10000},
          c.evaluations);
  v.field({.name = "test_samples", .doc = "Of the test set; 0 = all.", .min = 0, .max = 1e9},
          c.test_samples);
  v.field({.name = "target",
           .doc = "Accuracy whose time and cost are asked for.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 1},
          c.target);
  v.field(
      {.name = "tune",
       .doc = "Tries learning rates and momenta for each point, judged on a sixth of the training "
              "data that it does not learn from, and trains with the best."},
      c.tune);
}

template <class Visitor>
void describe(Visitor& v, SimulationSpec& s) {
  v.field({.name = "seed", .doc = "Seed of all random draws.", .min = 0, .max = 9e15}, s.seed);
  v.field({.name = "seeds",
           .doc = "Simulations of every point, with `seed` and the numbers after it: the mean of "
                  "their steps and of the staleness, with a 90 % interval. Left out: 4 where "
                  "workers need not keep step, anything is drawn, and they simulate at most 3000 "
                  "steps together; 1 elsewhere.",
           .min = 1,
           .max = 1000},
          s.seeds);
  v.field({.name = "steps",
           .doc = "Optimizer steps simulated at most; fewer when they no longer change.",
           .min = 2,
           .max = 1e6},
          s.steps);
  v.field({.name = "interference", .doc = "Communication slows down the compute it overlaps with."},
          s.interference);
  v.field({.name = "network", .doc = "flow: transfers share links; analytic: no contention."},
          s.network);
  v.field({.name = "engine",
           .doc = "What carries out the simulated programs. auto: SimGrid where transfers can meet "
                  "on a link and are few, a loop of our own elsewhere. Times are the same."},
          s.engine);
}

template <class Visitor>
void describe(Visitor& v, MeasuredRow& m) {
  v.location(m.where);
  v.field({.name = "strategy", .doc = "Label of the strategy; not needed when there is only one."},
          m.strategy);
  v.field(
      {.name = "gpus", .doc = "GPUs of the measurement.", .min = 1, .max = 1e6, .required = true},
      m.gpus);
  v.field({.name = "step_time",
           .doc = "Seconds of one optimizer step.",
           .unit = Dimension::seconds,
           .min = 1e-9,
           .max = 1e9},
          m.step_time);
  v.field({.name = "total_time",
           .doc = "Time of the whole run that `dataset` describes.",
           .unit = Dimension::seconds,
           .min = 1e-9,
           .max = 1e12},
          m.total_time);
  v.field(
      {.name = "samples_per_second", .doc = "Rate of all GPUs together.", .min = 1e-9, .max = 1e12},
      m.samples_per_second);
  v.field(
      {.name = "tokens_per_second", .doc = "Rate of all GPUs together.", .min = 1e-9, .max = 1e15},
      m.tokens_per_second);
  v.field({.name = "peak_allocated",
           .doc = "Peak of the framework's allocated device memory on one GPU.",
           .unit = Dimension::bytes,
           .min = 1,
           .max = 1e15},
          m.memory);
  v.field({.name = "source", .doc = "Where the figure comes from."}, m.source);
  v.field(
      {.name = "calibration",
       .doc = "The figure was used to fit a shipped device or platform: no test of prediction."},
      m.calibration);
  v.check([&](auto report) {
    const int times = m.step_time.has_value() + m.total_time.has_value() +
                      m.samples_per_second.has_value() + m.tokens_per_second.has_value();
    if (times > 1) report("", "gives more than one figure of time", "keep one");
    if (times == 0 && !m.memory) {
      report("", "gives no figure",
             "give step_time, total_time, samples_per_second, tokens_per_second or peak_allocated");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, EnergySpec& e) {
  v.field({.name = "overhead",
           .doc = "Power of the building over that of its machines (PUE).",
           .min = 1,
           .max = 10},
          e.overhead);
  v.field({.name = "carbon_intensity",
           .doc = "Grams of CO2 for each kWh of your grid; 0 = not said.",
           .min = 0,
           .max = 1e4},
          e.carbon_intensity);
}

template <class Visitor>
void describe(Visitor& v, Scenario& s) {
  v.location("model", s.model_where);
  v.location("platform", s.platform_where);
  v.location("fabric", s.fabric_where);
  v.location("profile", s.profile_where);
  v.location("gpus", s.gpus_where);
  v.location("batch", s.batch_where);
  v.location("input", s.input_where);
  v.location("dataset", s.dataset_where);
  v.location("model_parameters", s.model_parameters_where);
  v.field({.name = "name", .doc = "The question, in a few words.", .required = true}, s.name);
  v.field({.name = "description", .doc = "What to look at, and why."}, s.description);
  v.field({.name = "recipe",
           .doc = "Training code whose defaults hold for what the file does not say; "
                  "docs/scenario-format.md lists them.",
           .several = true},
          s.recipe);
  v.field({.name = "model",
           .doc = "Name of a file in models/, or a path to one.",
           .required = true,
           .several = true},
          s.model);
  v.field({.name = "model_parameters",
           .doc = "Overrides of a parametric model, for example {layers: 24, hidden: 2048}.",
           .min = -1e15,
           .max = 1e15},
          s.model_parameters);
  v.field({.name = "input", .doc = "Size of one sample."}, s.input);
  v.field({.name = "dataset", .doc = "Length of the whole run."}, s.dataset);
  v.field({.name = "batch", .doc = "Samples of one step.", .required = true}, s.batch);
  v.field({.name = "precision",
           .doc = "Numeric mode; docs/numbers.md says what each means.",
           .several = true},
          s.precision);
  v.field({.name = "optimizer", .doc = "Update rule and its implementation."}, s.optimizer);
  v.field({.name = "gradient_clipping",
           .doc = "Largest norm of the gradient; 0 = no clipping.",
           .min = 0,
           .max = 1e12},
          s.gradient_clipping);
  v.field({.name = "activation_checkpointing",
           .doc = "What forward computes is thrown away and computed again in backward."},
          s.activation_checkpointing);
  v.field({.name = "recompute",
           .doc = "What activation checkpointing computes again: blocks, every repeated block; "
                  "attention, that operator alone; operators, blocks without their fused attention "
                  "and every second matrix product."},
          s.recompute);
  v.field({.name = "attention",
           .doc = "fused: flash attention; plain: the scores are written to memory."},
          s.attention);
  v.field(
      {.name = "memory_format", .doc = "Layout of images: contiguous is NCHW, channels_last NHWC."},
      s.memory_format);
  v.field({.name = "framework", .doc = "The software that drives the device."}, s.framework);
  v.field({.name = "data_loading", .doc = "The input pipeline."}, s.data_loading);
  v.field({.name = "platform",
           .doc = "Name of a file in platforms/, or a path to one.",
           .required = true,
           .several = true},
          s.platform);
  v.field({.name = "fabric",
           .doc = "What differs from the platform's network between nodes; measured curves of its "
                  "collectives follow as the model says."},
          s.fabric);
  v.field(
      {.name = "profile", .doc = "Folder or file of a measured profile; empty = modelled costs."},
      s.profile);
  v.field({.name = "price_per_gpu_hour",
           .doc = "Overrides the platform's price.",
           .unit = Dimension::dollars_per_hour,
           .min = 0,
           .max = 1e6},
          s.price_per_gpu_hour);
  v.field({.name = "gpus",
           .doc = "GPU counts to answer for.",
           .min = 1,
           .max = 1e6,
           .min_items = 1,
           .max_items = 1000,
           .single = true},
          s.gpus);
  v.field({.name = "strategies",
           .doc = "Strategies to answer for.",
           .required = true,
           .min_items = 1,
           .max_items = 1000},
          s.strategies);
  v.field({.name = "stragglers", .doc = "How the ranks differ."}, s.stragglers);
  v.field({.name = "energy", .doc = "What the GPUs draw over the whole run is said, too."},
          s.energy);
  v.field({.name = "faults", .doc = "What fails in the whole run, and what then."}, s.faults);
  v.field({.name = "checkpoint", .doc = "What a restart goes back to."}, s.checkpoints);
  v.field({.name = "simulation", .doc = "How the simulation is run."}, s.simulation);
  v.field({.name = "convergence",
           .doc = "Real training in the simulated order of events: what accuracy is reached when."},
          s.convergence);
  v.field({.name = "measured", .doc = "Measured figures that `validate` compares with."},
          s.measured);
  v.field({.name = "anchor",
           .doc = "Measured step times of your own that set the scale of the prediction."},
          s.anchor);
  v.check([&](auto report) {
    if (s.faults && !s.dataset.says_length()) {
      report("faults", "needs the length of the run", "for example dataset: {time: 30 d}");
    }
    if (s.energy && !s.dataset.says_length()) {
      report("energy", "needs the length of the run", "for example dataset: {time: 30 d}");
    }
    if (s.energy && !s.stragglers.other_devices.empty()) {
      report("energy", "is not told apart by device", "leave out energy or other_devices");
    }
    if (s.checkpoints && !s.faults) {
      report("checkpoint", "has no effect without faults", "faults: {} is a run without failures");
    }
  });
}

}  // namespace lockstep
