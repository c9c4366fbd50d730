// Finds model files and turns one into a training step: parameters and inputs are evaluated, the
// layers are expanded through a StepBuilder, and the finished step is transformed for low
// precision, overlapped exchanges and compilation.
// Each option is checked where it is used, so that the error names the field that the user wrote.
#include "workload/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/data.hpp"
#include "parallel/mesh.hpp"
#include "workload/model_file.hpp"
#include "workload/model_reader.hpp"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

// Reports a misfit of the model and its options, located in the model's file without a line.
[[noreturn]] void fail(const ModelFile& model, const std::string& field, const std::string& message,
                       const std::string& hint = "") {
  Diagnostic diagnostic;
  diagnostic.where.file = model.path;
  diagnostic.field = field;
  diagnostic.message = message;
  diagnostic.hint = hint;
  throw ConfigError(std::move(diagnostic));
}

std::int64_t positive(const ModelFile& model, const std::string& field, std::int64_t value) {
  if (value < 1) fail(model, field, fmt::format("{} is not a possible size", value));
  return value;
}

// The model's parameters with the overrides of the options. A default may use earlier parameters,
// so an override changes all defaults that depend on it.
Scope parameter_scope(const ModelFile& model, const StepOptions& options) {
  std::vector<std::string> known;
  for (const auto& parameter : model.parameters) known.push_back(parameter.first);
  for (const auto& entry : options.parameters) {
    if (std::find(known.begin(), known.end(), entry.first) == known.end()) {
      fail(model, "parameters." + entry.first,
           fmt::format("model '{}' has no such parameter", model.name),
           known.empty() ? "it has none" : allowed_hint(entry.first, known));
    }
  }
  Scope scope;
  for (const auto& [name, expression] : model.parameters) {
    const auto argument = options.parameters.find(name);
    try {
      scope.set(name, argument != options.parameters.end() ? argument->second
                                                           : expression.evaluate(scope));
    } catch (const ModelError& error) {
      fail(model, "parameters." + name, error.what(), error.hint);
    }
  }
  return scope;
}

// Refuses a sequence that the ranks of the context axis cannot share evenly. With zigzag balance
// each rank holds two pieces, an early one and a late one, so the sequence must divide into twice
// as many pieces.
void require_parts(const ParallelOptions& parallel, std::int64_t tokens) {
  const ContextOptions& context = parallel.context;
  if (context.size == 1) return;
  const bool pieces =
      context.exchange != ContextExchange::all_to_all && context.balance == ContextBalance::zigzag;
  const std::int64_t parts = context.size * (pieces ? 2 : 1);
  if (tokens % parts == 0) return;
  throw parallel_misfit(parallel, "context",
                        fmt::format("{} GPUs cannot share {} tokens evenly", context.size, tokens),
                        fmt::format("a sequence that {} divides", parts));
}

// The value that the first layer reads: a sequence or an image, at the size of the options or at
// the model's default size.
Value model_input(const ModelFile& model, const StepOptions& options, const Scope& scope,
                  StepBuilder& builder) {
  if (model.tokens) {
    if (!options.image.empty()) {
      fail(model, "input.image", fmt::format("model '{}' reads tokens, not images", model.name),
           "use `sequence`");
    }
    const std::int64_t tokens =
        options.sequence != 0 ? options.sequence : model.tokens->evaluate(scope);
    require_parts(options.parallel, positive(model, "input.sequence", tokens));
    return builder.token_input(tokens);
  }
  if (options.parallel.context.size > 1) {
    throw parallel_misfit(options.parallel, "context",
                          fmt::format("model '{}' reads images, not sequences", model.name), "1");
  }
  if (options.sequence != 0) {
    fail(model, "input.sequence", fmt::format("model '{}' reads images, not tokens", model.name),
         "use `image`");
  }
  std::vector<std::int64_t> shape = options.image;
  if (shape.empty()) {
    for (const Expression& size : model.image) shape.push_back(size.evaluate(scope));
  }
  if (shape.size() != 3) fail(model, "input.image", "needs [channels, height, width]");
  for (const std::int64_t size : shape) positive(model, "input.image", size);
  return builder.image_input(shape);
}

// Refuses expert parallelism without an expert, which would silently leave all ranks with the same
// work.
void require_experts(const ModelFile& model, const StepOptions& options, const TrainingStep& step) {
  if (options.parallel.expert.size == 1) return;
  for (const Layer& layer : step.layers) {
    if (layer.kind == "experts") return;
  }
  throw parallel_misfit(options.parallel, "expert",
                        fmt::format("model '{}' has no experts", model.name), "1");
}

// Refuses fine-tuning of models with experts: adapters and quantization apply only to linear
// layers, so experts would silently remain trained.
void require_linear(const FineTuning& fine_tuning, const TrainingStep& step) {
  for (const Layer& layer : step.layers) {
    if (!fine_tuning.is_used() || layer.kind != "experts") continue;
    throw ConfigError(Diagnostic{fine_tuning.where(), fine_tuning.field(),
                                 "not with a model that has experts: they would be trained",
                                 "a model without experts"});
  }
}

std::string existing(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? path.string() : "";
}

}  // namespace

std::vector<std::string> known_models() {
  return stems_in(data_folder("models"), ".yaml");
}

std::string find_model_file(const std::string& name, const std::string& beside) {
  // A path is tried first relative to the file that names it, and then unchanged.
  if (name.ends_with(".yaml") || name.find('/') != std::string::npos) {
    const std::string near = existing(fs::path(beside).parent_path() / name);
    return near.empty() ? name : near;
  }
  if (name.empty()) return "";
  return existing(fs::path(data_folder("models")) / (name + ".yaml"));
}

std::shared_ptr<const ModelFile> load_model(const std::string& name_or_path) {
  const std::string path = find_model_file(name_or_path, "");
  if (path.empty()) {
    Diagnostic diagnostic;
    diagnostic.where.file = name_or_path;
    diagnostic.field = "model";
    diagnostic.message = fmt::format("there is no model {}", in_quotes(name_or_path));
    diagnostic.hint = allowed_hint(name_or_path, known_models());
    throw ConfigError(std::move(diagnostic));
  }
  return std::make_shared<const ModelFile>(read_model_file(path));
}

TrainingStep build_step(const ModelFile& model, const StepOptions& options) {
  if (options.samples < 1) {
    fail(model, "samples", fmt::format("a batch of {} samples is not possible", options.samples));
  }
  try {
    Scope scope = parameter_scope(model, options);
    if (model.classes) {
      const std::int64_t classes =
          options.classes != 0 ? options.classes : model.classes->evaluate(scope);
      scope.set("classes", positive(model, "input.classes", classes));
    } else if (options.classes != 0) {
      fail(model, "input.classes", fmt::format("model '{}' has no classes", model.name));
    }
    if (options.parallel.tensor.size > 1 && model.tensor_parallel.empty()) {
      throw parallel_misfit(
          options.parallel, "tensor",
          fmt::format("model '{}' does not say how its layers are cut", model.name),
          "1, or a model with `tensor_parallel:` (docs/model-format.md)");
    }
    // Expanding the layers writes kernels and tensors, and records the names that fine-tuning
    // options give; all of these names must have been found afterwards.
    StepBuilder builder(options);
    const Value input = model_input(model, options, scope, builder);
    expand_model(model, scope, input, builder);
    builder.freezing().check();
    TrainingStep step = builder.finish();
    require_experts(model, options, step);
    require_linear(options.fine_tuning, step);
    step.model = model.name;
    // A profile measures only whole layers on one device with all tokens; the kernel model gives
    // the time of any other layer.
    const ParallelOptions& parallel = options.parallel;
    step.whole_layers = parallel.tensor.size == 1 && parallel.context.size == 1 &&
                        parallel.expert.size == 1 && options.tokens_before == 0 &&
                        !options.fine_tuning.is_used();
    step.captured = options.cuda_graphs;
    const bool compiles = options.compile != Compile::none;
    // Low precision must come first, because it adds the casts that a compiler fuses.
    step = with_low_precision(std::move(step),
                              {options.low_precision, compiles, options.micro_batches});
    if (parallel.tensor.size > 1 && parallel.tensor.overlap == TensorOverlap::pieces) {
      step = exchanged_in_pieces(std::move(step), parallel.tensor.size);
    }
    if (compiles) return compiled(std::move(step), options.compile);
    return options.fused_kernels ? with_fused_kernels(std::move(step)) : step;
  } catch (const ModelError& error) {
    fail(model, "input", error.what(), error.hint);
  }
}

ModelSummary summarise(const ModelFile& model) {
  const TrainingStep step = build_step(model, {});
  ModelSummary summary;
  summary.parameters = step.parameter_count;
  summary.multiply_accumulates = step.forward_flops / 2;
  summary.published_parameters = model.published_parameters;
  summary.published_multiply_accumulates = model.published_multiply_accumulates;
  summary.source = model.source;
  return summary;
}

}  // namespace lockstep
