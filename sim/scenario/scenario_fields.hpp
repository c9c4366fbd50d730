// The format of a scenario file: one declaration per field (core/fields.hpp) with its bounds and
// its description. Code that reads, writes or documents scenarios includes it.
// docs/scenario-format.md and the JSON Schema are generated from it.
//
// Some properties of a declaration: `several` means that the field may list alternatives
// (alternatives.hpp). `single` means that a single value may stand for a list of one, or for a map
// with only its first field. `unit` is the dimension of a quantity with a unit. A check runs after
// all fields of its map are read.
#pragma once

#include "core/fields.hpp"
#include "hardware/machine_file.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

template <class Visitor>
void describe(Visitor& v, InputSpec& i) {
  v.field("image", i.image, "Channels, height, width of one image; empty = the model's own.",
          {.min = 1, .max = 65536, .min_items = 3, .max_items = 3, .or_empty = true});
  v.field("sequence", i.sequence, "Tokens of one sample; 0 = the model's own.",
          {.min = 0, .max = 10e6});
  v.field("classes", i.classes, "Classes the network tells apart; 0 = the model's own.",
          {.min = 0, .max = 10e6});
}

template <class Visitor>
void describe(Visitor& v, DatasetSpec& d) {
  v.field("samples", d.samples,
          "Training samples of one epoch; gives the length of the run, and so its time and price.",
          {.unit = Dimension::count, .min = 0, .max = 1e13});
  v.field("epochs", d.epochs, "Passes over the data.", {.min = 0, .max = 1e6});
  v.field("tokens", d.tokens, "Tokens of the whole run, instead of samples and epochs.",
          {.unit = Dimension::count, .min = 0, .max = 1e16});
  v.field("steps", d.steps, "Optimizer steps of the whole run, instead of samples and epochs.",
          {.unit = Dimension::count, .min = 0, .max = 1e13});
  v.field("time", d.seconds,
          "Training time of the whole run without failures, instead of samples and epochs.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12});
  // At most one of samples, tokens, steps and time may determine the length of the run.
  v.check([&](auto report) {
    const char* length = d.samples > 0 ? "samples" : "";
    for (const auto& [name, value] :
         {std::pair{"tokens", d.tokens}, {"steps", d.steps}, {"time", d.seconds}}) {
      if (value <= 0) continue;
      if (*length != '\0') {
        report(name, std::string("contradicts ") + length, "give the length of the run once");
      }
      length = name;
    }
    if (d.epochs != 1 && d.samples == 0) {
      report("epochs", "has no effect without samples", "give samples, or leave epochs out");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, BatchSpec& b) {
  constexpr double most = 1e9;
  v.field("global", b.global, "Samples of one optimizer step over all GPUs (strong scaling).",
          {.min = 0, .max = most, .several = true});
  v.field("per_gpu", b.per_gpu, "Samples of one optimizer step on one GPU (weak scaling).",
          {.min = 0, .max = most, .several = true});
  v.field("micro", b.micro, "Samples of one forward and backward on one GPU.",
          {.min = 0, .max = most, .several = true});
  v.field("accumulation", b.accumulation,
          "Micro-batches of one optimizer step; 0 = derived from the other fields, else 1.",
          {.min = 0, .max = 1e6});
  v.check([&](auto report) {
    if (b.global > 0 && b.per_gpu > 0) report("per_gpu", "contradicts global", "give one of them");
    if (b.global == 0 && b.per_gpu == 0 && b.micro == 0) {
      report("", "says no batch size", "give one of global, per_gpu, micro");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, LowPrecision& l) {
  v.field("recipe", l.recipe,
          "Rule by which operands get their scales, and the library; see docs/fast-path.md.",
          {.required = true});
  v.field("gather", l.gather,
          "FSDP gathers the weights of these products as fp8 (torchao's "
          "enable_fsdp_float8_all_gather).");
}

template <class Visitor>
void describe(Visitor& v, DataLoading& d) {
  v.field("on_device", d.on_device,
          "Batches already lie in device memory (synthetic data, a loader on the GPU): no copy "
          "from the host.");
  v.field("samples_per_second", d.samples_per_second,
          "Samples per second that the input pipeline delivers to one GPU; 0 = unlimited.",
          {.unit = Dimension::count, .min = 0, .max = 1e12});
}

template <class Visitor>
void describe(Visitor& v, StrategyEntry& s) {
  v.location(s.where);
  // The strategy's name is a key of the entry: `- fsdp: {...}`, or only the word: `- fsdp`.
  v.alternative("strategy", s.options, "Strategy by which the GPUs work together.");
  v.field("label", s.label, "Name in tables and in `measured`; empty = the strategy's name.");
  v.field("precision", s.precision, "Overrides the scenario's precision.");
  v.field("activation_checkpointing", s.activation_checkpointing,
          "Overrides the scenario's setting.");
  v.field("recompute", s.recompute, "Overrides the scenario's setting.");
  v.field("compile", s.compile, "Overrides the scenario's setting.");
  v.field("cuda_graphs", s.cuda_graphs, "Overrides the scenario's setting.");
  v.field("low_precision", s.low_precision, "Overrides the scenario's setting.", {.single = true});
  v.field("parallel", s.parallel, "Overrides all of the scenario's mesh.");
}

template <class Visitor>
void describe(Visitor& v, TuningSpec& t) {
  v.field("learning_rate", t.learning_rate, "Rates to try, before scaling.",
          {.min = 1e-12, .max = 1e6, .min_items = 1, .max_items = 100, .single = true});
  v.field("momentum", t.momentum, "Momenta to try.",
          {.min = 0, .max = 1, .min_items = 1, .max_items = 100, .single = true});
}

template <class Visitor>
void describe(Visitor& v, ConvergenceSpec& c) {
  v.location(c.where);
  v.field("data", c.data,
          "fashion-mnist (Debian's package), synthetic, or a folder with the files of MNIST, "
          "Fashion-MNIST or CIFAR-10.");
  v.field("learning_rate", c.learning_rate, "Learning rate at the beginning of the run.",
          {.min = 1e-12, .max = 1e6, .several = true});
  v.field("scaling", c.scaling,
          "The learning rate times the number of workers (linear), or its square root.");
  v.field("momentum_at", c.momentum_at, "Place of the optimizer's momentum.");
  v.field("schedule", c.schedule,
          "constant; cosine: falls to 0; steps: a tenth from half of the run on, a hundredth from "
          "three quarters on.");
  v.field("warm_up_epochs", c.warm_up_epochs,
          "Epochs in which the learning rate grows linearly from 0.", {.min = 0, .max = 1e6});
  v.field("initialisation", c.initialisation,
          "layers: each layer's own default; kaiming: convolutions as torchvision's VGG and ResNet "
          "begin.");
  v.field("running_statistics", c.running_statistics,
          "Running statistics of batch norm in evaluations: those of the first worker, or "
          "untouched, as on a server that receives only gradients.");
  v.field("seeds", c.seeds,
          "Runs of each point, with other initial values and another order of the data.",
          {.min = 1, .max = 1000});
  v.field("evaluations", c.evaluations, "How often the test set is classified in a run.",
          {.min = 1, .max = 10000});
  v.field("test_samples", c.test_samples, "Samples of the test set; 0 = all.",
          {.min = 0, .max = 1e9});
  v.field("target", c.target, "Accuracy to reach; the answer gives the time and cost until then.",
          {.unit = Dimension::fraction, .min = 0, .max = 1});
  v.field("tune", c.tune,
          "Tries learning rates and momenta for each point, judged on a sixth of the training data "
          "that it does not learn from, and trains with the best.");
}

template <class Visitor>
void describe(Visitor& v, SimulationSpec& s) {
  v.field("seed", s.seed, "Seed of all random draws.", {.min = 0, .max = 9e15});
  v.field(
      "seeds", s.seeds,
      "Simulations of every point, with `seed` and the numbers after it; the answer has the means "
      "of step time and staleness with 90 % intervals. Left out: 4 if workers need not keep step, "
      "anything is drawn and all simulations have at most 3000 steps together; otherwise 1.",
      {.min = 1, .max = 1000});
  v.field("steps", s.steps,
          "Largest number of simulated optimizer steps; fewer once a steady state is reached.",
          {.min = 2, .max = 1e6});
  v.field("interference", s.interference, "Communication slows down the compute it overlaps with.");
  v.field("network", s.network, "flow: transfers share links; analytic: no contention.");
  v.field("engine", s.engine,
          "Executor of the simulated programs. auto: SimGrid for few transfers that can meet on a "
          "link, otherwise Lockstep's own loop. The times are equal.");
}

template <class Visitor>
void describe(Visitor& v, MeasuredRow& m) {
  v.location(m.where);
  v.field("strategy", m.strategy, "Label of the strategy; not needed when there is only one.");
  v.field("gpus", m.gpus, "GPUs of the measurement.", {.min = 1, .max = 1e6, .required = true});
  v.field("step_time", m.step_time, "Seconds of one optimizer step.",
          {.unit = Dimension::seconds, .min = 1e-9, .max = 1e9});
  v.field("total_time", m.total_time, "Time of the whole run that `dataset` describes.",
          {.unit = Dimension::seconds, .min = 1e-9, .max = 1e12});
  v.field("samples_per_second", m.samples_per_second, "Rate of all GPUs together.",
          {.min = 1e-9, .max = 1e12});
  v.field("tokens_per_second", m.tokens_per_second, "Rate of all GPUs together.",
          {.min = 1e-9, .max = 1e15});
  v.field("peak_allocated", m.memory, "Peak of the framework's allocated device memory on one GPU.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e15});
  v.field("fits", m.fits, "Whether the job fits in memory.");
  v.field("source", m.source, "Source of the figure.");
  v.field("calibration", m.calibration,
          "The figure was used to fit a shipped device or platform: no test of prediction.");
  v.check([&](auto report) {
    // Several times could contradict each other. Memory and `fits` may be given with or without a
    // time.
    const int times = m.step_time.has_value() + m.total_time.has_value() +
                      m.samples_per_second.has_value() + m.tokens_per_second.has_value();
    if (times > 1) report("", "gives more than one figure of time", "keep one");
    if (times == 0 && !m.memory && !m.fits) {
      report("", "gives no figure",
             "give step_time, total_time, samples_per_second, tokens_per_second, peak_allocated or "
             "fits");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, EnergySpec& e) {
  v.field("overhead", e.overhead, "Power of the building over that of its machines (PUE).",
          {.min = 1, .max = 10});
  v.field("carbon_intensity", e.carbon_intensity,
          "Grams of CO2 per kWh of your grid; 0 = no prediction of CO2.", {.min = 0, .max = 1e4});
}

template <class Visitor>
void describe(Visitor& v, MeshLimits& m) {
  // Most lists of sizes have the same bounds.
  const auto sizes = [&v](const char* name, std::vector<std::int64_t>& list, const char* text) {
    v.field(name, list, text,
            {.min = 1, .max = 1e6, .min_items = 1, .max_items = 100, .single = true});
  };
  sizes("tensor", m.tensor, "Sizes of the tensor axis, up to the GPUs of a node.");
  v.field("context", m.context,
          "Sizes of the context axis; empty = 1, and for 32,768 tokens or more 2 to 16.",
          {.min = 1, .max = 1e6, .max_items = 100, .or_empty = true, .single = true});
  sizes("expert", m.expert, "Sizes of the expert axis, for models that have experts.");
  sizes("pipeline", m.pipeline, "Numbers of stages.");
  v.field("schedule", m.schedule, "Orders of micro-batches on a stage.",
          {.min_items = 1, .max_items = 100, .single = true});
  sizes("chunks", m.chunks, "Parts of the model on each GPU, for schedules that take several.");
  sizes("micro", m.micro, "Samples of a micro-batch.");
}

template <class Visitor>
void describe(Visitor& v, RecommendSpec& r) {
  v.field("parallel", r.parallel, "Meshes to consider: all combinations that divide.");
}

// Fields whose place is stored for messages.
template <class Visitor>
void describe_places(Visitor& v, Scenario& s) {
  v.location("model", s.model_where);
  v.location("platform", s.platform_where);
  v.location("fabric", s.fabric_where);
  v.location("profile", s.profile_where);
  v.location("cuda_graphs", s.cuda_graphs_where);
  v.location("low_precision", s.low_precision_where);
  v.location("gpus", s.gpus_where);
  v.location("batch", s.batch_where);
  v.location("input", s.input_where);
  v.location("dataset", s.dataset_where);
  v.location("model_parameters", s.model_parameters_where);
}

template <class Visitor>
void describe_fast_path(Visitor& v, Scenario& s) {
  v.field("compile", s.compile,
          "torch.compile: blocks, each repeated block and the loss by itself; whole, the model.",
          {.several = true});
  v.field(
      "fused_kernels", s.fused_kernels,
      "Norms, rotary embeddings, gated activations, dropouts with their sums and the loss are one "
      "hand-written kernel each way (Transformer Engine, Apex, Liger).");
  v.field("cuda_graphs", s.cuda_graphs,
          "Forward and backward are launched as one CUDA graph: no host time inside.");
  v.field("low_precision", s.low_precision,
          "Products of the repeated blocks' linear layers in fp8 or fp4; a name is the recipe.",
          {.single = true, .several = true});
}

template <class Visitor>
void describe(Visitor& v, Scenario& s) {
  describe_places(v, s);
  v.field("name", s.name, "The question, in a few words.", {.required = true});
  v.field("description", s.description,
          "Free text: the reason for the question, and figures to look at.");
  v.field("recipe", s.recipe,
          "Training code whose defaults fill in the fields that the file leaves out; see "
          "docs/scenario-format.md.",
          {.several = true});
  v.field("model", s.model, "Name of a file in models/, or a path to one.",
          {.required = true, .several = true});
  v.field("model_parameters", s.model_parameters,
          "Overrides of a parametric model, for example {layers: 24, hidden: 2048}.",
          {.min = -1e15, .max = 1e15});
  v.field("input", s.input, "Size of one sample.");
  v.field("dataset", s.dataset, "Length of the whole run.");
  v.field("batch", s.batch, "Samples of one step.", {.required = true});
  v.field("precision", s.precision, "Numeric mode, see docs/numbers.md.", {.several = true});
  v.field("optimizer", s.optimizer, "Update rule and its implementation.");
  describe(v, s.fine_tuning);
  v.field("gradient_clipping", s.gradient_clipping,
          "Largest norm of the gradient; 0 = no clipping.", {.min = 0, .max = 1e12});
  v.field("activation_checkpointing", s.activation_checkpointing,
          "Activations are discarded in forward and computed again in backward.");
  v.field("recompute", s.recompute,
          "Part that activation checkpointing computes again: blocks, every repeated block; "
          "attention, only that operator; operators, blocks without their fused attention and "
          "every second matrix product.");
  describe_fast_path(v, s);
  v.field("attention", s.attention,
          "fused: flash attention; plain: the scores are written to memory.");
  v.field("memory_format", s.memory_format,
          "Layout of images: contiguous is NCHW, channels_last NHWC.");
  v.field("framework", s.framework, "The software that drives the device.");
  v.field("data_loading", s.data_loading, "The input pipeline.");
  v.field("platform", s.platform, "Name of a file in platforms/, or a path to one.",
          {.required = true, .several = true});
  v.field("fabric", s.fabric,
          "Overrides of the platform's network between nodes; its measured curves of collectives "
          "are scaled as the model predicts.");
  v.field("profile", s.profile, "Folder or file of a measured profile; empty = modelled costs.");
  v.field("price_per_gpu_hour", s.price_per_gpu_hour, "Overrides the platform's price.",
          {.unit = Dimension::dollars_per_hour, .min = 0, .max = 1e6});
  v.field("gpus", s.gpus, "GPU counts to answer for.",
          {.min = 1, .max = 1e6, .min_items = 1, .max_items = 1000, .single = true});
  v.field("parallel", s.parallel,
          "How one replica of the model is spread over GPUs; data parallelism takes the others.");
  v.field("strategies", s.strategies, "Strategies to answer for.",
          {.required = true, .min_items = 1, .max_items = 1000});
  v.field("stragglers", s.stragglers, "Differences between the ranks.");
  v.field("energy", s.energy, "Also predict the energy of the GPUs over the whole run.");
  v.field("faults", s.faults, "Failures in the whole run, and how the job recovers.");
  v.field("checkpoint", s.checkpoints, "Checkpoints from which a restart goes on.");
  v.field("simulation", s.simulation, "Options of the simulation.");
  v.field("convergence", s.convergence,
          "Real training in the simulated order of events: accuracy over time.");
  v.field("recommend", s.recommend, "Candidates that `recommend` considers.");
  v.field("measured", s.measured, "Measured figures that `validate` compares with.");
  v.field("anchor", s.anchor, "Your own measured step times, to which the prediction is scaled.");
  v.check([&](auto report) {
    // Effects of failures, and energy, are totals over the run, which has no length without
    // `dataset`.
    for (const auto& [name, is_there] :
         {std::pair{"faults", s.faults.has_value()}, {"energy", s.energy.has_value()}}) {
      if (!is_there || s.dataset.says_length()) continue;
      report(name, "needs the length of the run", "for example dataset: {time: 30 d}");
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
