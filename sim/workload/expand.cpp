// Expands a model file into layers by a recursive walk over its steps. The walk evaluates
// expressions, unrolls repeats and blocks, resolves references by name, and calls the rule of each
// operator. Shapes are known during the walk, so expressions may use the current tensor's
// `channels`, `height`, `width` and `tokens`, and a shape that does not fit is reported at the step
// that reads it. Limits on layers, depth and visits end the expansion of a hostile file.
#include <fmt/format.h>

#include <map>
#include <set>

#include "workload/model_reader.hpp"
#include "workload/placement.hpp"

namespace lockstep {

namespace {

constexpr std::size_t max_layers = 100'000;
constexpr int max_depth = 256;                // nesting of structures
constexpr std::int64_t max_visits = 400'000;  // visited steps and joined inputs

// A naming scope, which corresponds to an nn.Module: layers inside have its path before their
// names.
struct Frame {
  std::string path;
  bool numbered = false;  // like nn.Sequential: layers without a name are called 0, 1, 2, ...
  std::int64_t next = 0;
  std::map<std::string, int> used = {};  // number of uses of a kind as a name: relu, relu_2, ...

  std::string join(const std::string& name) const {
    return path.empty() ? name : path + "." + name;
  }
};

// The position of the walk: naming scope, innermost repeated block, and the names that expressions
// can use.
struct Place {
  Frame* frame;
  std::string block;
  const Scope* scope;
};

// Walks the steps of one model. `outputs_` has the result of every named layer and scope, by full
// path, to which `from:` may refer.
class Expander {
 public:
  Expander(const ModelFile& model, const Scope& parameters, StepBuilder& builder,
           const Value& input)
      : model_(model), parameters_(parameters), builder_(builder) {
    outputs_["input"] = input;
  }

  Value run(const std::vector<ModelStep>& steps, Value x, const Place& place) {
    if (++depth_ > max_depth) throw ModelError("the structures are nested too deeply");
    for (const ModelStep& step : steps) x = run(step, x, place);
    --depth_;
    return x;
  }

  // Refuses a model in which all repeats run 0 times: a single empty stage of a network is
  // intended, but a network without any block is a mistake.
  void refuse_empty() const {
    if (never_ == nullptr || repeats_) return;
    fail(never_->at, "0 times is not possible: the network would have no block at all",
         "at least 1; `if:` leaves a repeat out");
  }

 private:
  [[noreturn]] static void fail(const Diagnostic& at, const std::string& message,
                                const std::string& hint) {
    Diagnostic located = at;
    located.message = message;
    located.hint = hint;
    throw ConfigError(std::move(located));
  }

  // Counts the work of the walk and limits it, so that nested repeats of empty lists cannot run for
  // ever.
  void visit(std::size_t amount) {
    visits_ += static_cast<std::int64_t>(amount);
    if (visits_ > max_visits) throw ModelError("the model expands to too many steps");
  }

  // Runs one step on `x`, or on the layers of its `from:`. A step whose `if:` is 0 returns `x`.
  Value run(const ModelStep& step, const Value& x, const Place& place) {
    try {
      visit(1 + step.from.size() + step.bodies.size());
      Scope scope(place.scope);
      if (!step.when && step.from.empty()) {
        describe(x, scope);
        return run_structure(step, x, {place.frame, place.block, &scope});
      }
      std::vector<Value> inputs;
      for (const std::string& name : step.from) inputs.push_back(resolve(name, *place.frame));
      const Value& first = inputs.empty() ? x : inputs.front();
      describe(first, scope);
      if (step.when && step.when->evaluate(scope) == 0) return x;
      const Place inner{place.frame, place.block, &scope};
      if (inputs.size() < 2) return run_structure(step, first, inner);
      if (step.type != ModelStep::Type::op) {
        throw ModelError(fmt::format("'{}' takes one input, not {}", step.key, inputs.size()));
      }
      return run_op(step, inputs, inner);
    } catch (const ModelError& error) {
      fail(step.at, error.what(), error.hint);
    }
  }

  // Defines the sizes of a tensor for expressions. Model files are written without a mesh, so the
  // sizes describe the whole tensor, not a rank's part.
  void describe(const Value& value, Scope& scope) const {
    const Value x = whole_value(value, builder_.options().parallel);
    if (!x.shape.empty() && !x.tokens) scope.set("channels", x.channels());
    if (x.shape.size() == 3) {
      scope.set("height", x.shape[x.permuted ? 0 : 1]);
      scope.set("width", x.shape[x.permuted ? 1 : 2]);
    } else if (x.is_sequence() || x.tokens) {
      scope.set("tokens", x.shape[0]);
    }
  }

  // Searches the scopes from the inside out: "q" in "layers.0.attn" is first looked up as
  // layers.0.attn.q.
  const Value& resolve(const std::string& name, const Frame& frame) const {
    std::string path = frame.path;
    while (true) {
      const auto found = outputs_.find(path.empty() ? name : path + "." + name);
      if (found != outputs_.end()) return found->second;
      if (path.empty()) break;
      const std::size_t dot = path.rfind('.');
      path = dot == std::string::npos ? "" : path.substr(0, dot);
    }
    throw ModelError(fmt::format("from: no earlier layer is called '{}'", name),
                     "a layer reads only what stands before it, so there are no cycles");
  }

  Value run_structure(const ModelStep& step, const Value& x, const Place& place) {
    using T = ModelStep::Type;
    switch (step.type) {
      case T::op:
        return run_op(step, {x}, place);
      case T::block:
        return in_scope(step, x, place, false,
                        [&](const Place& inner) { return run_block(step, x, inner); });
      case T::group:
      case T::sequential:
        return in_scope(step, x, place, step.type == T::sequential,
                        [&](const Place& inner) { return run(step.bodies[0], x, inner); });
      case T::repeat:
        return run_repeat(step, x, place);
      case T::dense:
        return run_dense(step, x, place);
      case T::residual:
        return in_scope(step, x, place, false, [&](const Place& inner) {
          const Value body = run(step.bodies[0], x, inner);
          const Value shortcut = run(step.bodies[1], x, inner);
          const bool in_place = step.in_place.value_or(body.is_image());
          return emit(call("add", {body, shortcut}, inner),
                      [&](const OpCall& sum) { return emit_add(sum, in_place); });
        });
      case T::join:
        return in_scope(step, x, place, false, [&](const Place& inner) {
          std::vector<Value> values;
          for (const auto& branch : step.bodies) values.push_back(run(branch, x, inner));
          OpCall join = call(step.key, values, inner);
          fill_arguments(step, *inner.scope, join);
          return emit(join, step.op->emit);
        });
    }
    return x;
  }

  // Runs `body` in a scope with the step's name, or in the current scope if the step has no name.
  template <class Body>
  Value in_scope(const ModelStep& step, const Value& x, const Place& place, bool numbered,
                 const Body& body) {
    if (step.name.empty()) return body(place);
    Frame frame{claim(place.frame->join(step.name.render(*place.scope))), numbered};
    outputs_[frame.path + ".input"] = x;
    const Value y = body(Place{&frame, place.block, place.scope});
    outputs_[frame.path] = y;
    return y;
  }

  // Runs a block. Its arguments are evaluated in the scope of the step that uses it; the block's
  // layers can use only these arguments and the model's parameters.
  Value run_block(const ModelStep& step, const Value& x, const Place& place) {
    const ModelBlock& block = model_.blocks[step.block];
    Scope scope(&parameters_);
    for (std::size_t i = 0; i < block.arguments.size(); ++i) {
      const auto& [name, fallback] = block.arguments[i];
      // A default may use the arguments before it.
      if (step.arguments[i].given) {
        scope.set(name, evaluate(step.arguments[i], *place.scope));
      } else {
        Scope with_input(&scope);
        describe(x, with_input);
        scope.set(name, fallback->evaluate(with_input));
      }
    }
    return run(block.layers, x, {place.frame, place.block, &scope});
  }

  // The number of iterations of a repeat. Records whether any repeat of the model runs at least
  // once.
  std::int64_t loop_count(const ModelStep& step, const Scope& scope) {
    const std::int64_t count = step.count.evaluate(scope);
    if (count < 0 || count > static_cast<std::int64_t>(max_layers)) {
      throw ModelError(fmt::format("{} times is not possible", count),
                       fmt::format("allowed: 0 to {}", max_layers));
    }
    if (count > 0) repeats_ = true;
    if (count == 0 && never_ == nullptr) never_ = &step;
    return count;
  }

  // Path of iteration i: "denselayer3" from a name with an expression, "layer1.3" from a plain
  // name, "3" in an nn.Sequential or without a name.
  std::string iteration_path(const ModelStep& step, Frame& frame, std::int64_t i,
                             const Scope& scope) {
    if (step.name.has_expression) return frame.join(step.name.render(scope));
    if (!step.name.empty()) return frame.join(fmt::format("{}.{}", step.name.render(scope), i));
    return frame.join(fmt::format("{}", frame.numbered ? frame.next++ : i));
  }

  // Unrolls a repeat. Each iteration is a block unless `unit: false`. The name of the repeat refers
  // to the result of the last iteration.
  Value run_repeat(const ModelStep& step, Value x, const Place& place) {
    const std::int64_t count = loop_count(step, *place.scope);
    for (std::int64_t i = 0; i < count; ++i) {
      visit(1);
      Scope scope(place.scope);
      scope.set(step.index, i);
      if (!step.unit && step.name.empty()) {
        x = run(step.bodies[0], x, {place.frame, place.block, &scope});
        continue;
      }
      Frame frame{claim(iteration_path(step, *place.frame, i, scope))};
      outputs_[frame.path + ".input"] = x;
      x = run(step.bodies[0], x, {&frame, step.unit ? frame.path : place.block, &scope});
      outputs_[frame.path] = x;
    }
    if (!step.name.empty() && !step.name.has_expression && count > 0) {
      outputs_[place.frame->join(step.name.render(*place.scope))] = x;
    }
    return x;
  }

  // Dense connectivity: each iteration reads the concatenation of the input and of all earlier
  // outputs.
  Value run_dense(const ModelStep& step, const Value& x, const Place& place) {
    const std::int64_t count = loop_count(step, *place.scope);
    std::vector<Value> features{x};
    for (std::int64_t i = 0; i < count; ++i) {
      visit(features.size());
      Scope scope(place.scope);
      scope.set(step.index, i);
      Frame frame{claim(iteration_path(step, *place.frame, i, scope))};
      const Place inner{&frame, frame.path, &scope};
      const Value all = emit(call("concat", features, inner), emit_concat);
      outputs_[frame.path + ".input"] = all;
      features.push_back(run(step.bodies[0], all, inner));
      outputs_[frame.path] = features.back();
    }
    return emit(call("concat", features, place), emit_concat);
  }

  // A call of an operator without a name of its own: numbered in an nn.Sequential, else named after
  // its kind.
  OpCall call(const std::string& kind, std::vector<Value> inputs, const Place& place) {
    Frame& frame = *place.frame;
    std::string name;
    if (frame.numbered) {
      name = frame.join(fmt::format("{}", frame.next++));
    } else {
      const int count = ++frame.used[kind];
      name = frame.join(count == 1 ? kind : fmt::format("{}_{}", kind, count));
    }
    return {builder_, name, kind, place.block, std::move(inputs)};
  }

  Value run_op(const ModelStep& step, std::vector<Value> inputs, const Place& place) {
    if (inputs.size() < step.op->min_inputs || inputs.size() > step.op->max_inputs) {
      throw ModelError(fmt::format("{} cannot take {} input{}", step.key, inputs.size(),
                                   inputs.size() == 1 ? "" : "s"),
                       "name its inputs with `from: [a, b]`, or list branches");
    }
    OpCall op{builder_, "", step.key, place.block, std::move(inputs)};
    if (step.name.empty()) {
      op.name = call(step.key, {}, place).name;
    } else {
      op.name = place.frame->join(step.name.render(*place.scope));
      if (place.frame->numbered) ++place.frame->next;
    }
    fill_arguments(step, *place.scope, op);
    return emit(op, step.op->emit);
  }

  static std::int64_t evaluate(const StepArgument& argument, const Scope& scope) {
    try {
      return argument.expression.evaluate(scope);
    } catch (const ModelError& error) {
      fail(argument.at, error.what(), error.hint);
    }
  }

  // Evaluates the arguments in the order of the operator's table row and checks their ranges.
  static void fill_arguments(const ModelStep& step, const Scope& scope, OpCall& op) {
    op.specs = &step.op->arguments;
    for (std::size_t i = 0; i < op.specs->size(); ++i) {
      const ArgumentSpec& spec = (*op.specs)[i];
      const StepArgument& argument = step.arguments[i];
      std::int64_t value = spec.fallback;
      if (argument.given && spec.type == ArgumentType::probability) {
        value = argument.millionths;
      } else if (argument.given && spec.type != ArgumentType::word) {
        value = evaluate(argument, scope);
        if (value < spec.min || value > spec.max) {
          fail(argument.at, fmt::format("{} is out of range", value),
               fmt::format("allowed: {} to {}", spec.min, spec.max));
        }
      }
      op.integers.push_back(value);
      op.words.push_back(!argument.word.empty() || spec.words.empty() ? argument.word
                                                                      : spec.words.front());
    }
  }

  // Writes the layers of an operator and records its result under its name. On a mesh, the
  // exchanges that its inputs need come first.
  template <class Emit>
  Value emit(const OpCall& op, const Emit& rule) {
    if (builder_.layer_count() >= max_layers) {
      throw ModelError(fmt::format("the model expands to more than {} layers", max_layers));
    }
    claim(op.name);
    try {
      const Value y = builder_.options().parallel.tensor.size == 1 ? rule(op) : emit_part(op, rule);
      outputs_[op.name] = y;
      return y;
    } catch (const ModelError& error) {
      throw ModelError(fmt::format("{}: {}", op.name, error.what()), error.hint);
    }
  }

  // One rank's part of the layer, after the exchanges that its inputs need.
  template <class Emit>
  Value emit_part(const OpCall& op, const Emit& rule) {
    const OpCall part = of_one_rank(op, model_.tensor_parallel);
    Value y = rule(part);
    y.placement = result_placement(part);
    y.kept_storage = -1;
    return y;
  }

  // Reserves a full path for one layer or scope. Two with the same name would make `from:`
  // ambiguous.
  std::string claim(std::string path) {
    if (path.size() > 1000) throw ModelError("the layer's name is too long");
    if (!names_.insert(path).second) {
      throw ModelError(fmt::format("there are two layers called '{}'", path),
                       "give one of them another `name:`");
    }
    return path;
  }

  const ModelFile& model_;
  const Scope& parameters_;
  StepBuilder& builder_;
  std::map<std::string, Value> outputs_;
  std::set<std::string> names_;
  std::int64_t visits_ = 0;
  int depth_ = 0;
  bool repeats_ = false;              // a repeat ran at least once
  const ModelStep* never_ = nullptr;  // the first repeat that ran 0 times
};

}  // namespace

void expand_model(const ModelFile& model, const Scope& parameters, const Value& input,
                  StepBuilder& builder) {
  Expander expander(model, parameters, builder, input);
  Frame root;
  const Value loss = expander.run(model.layers, input, {&root, "", &parameters});
  expander.refuse_empty();
  if (!loss.shape.empty()) {
    Diagnostic diagnostic;
    diagnostic.where.file = model.path;
    diagnostic.field = "layers";
    diagnostic.message = fmt::format("the model ends with {}, not with a loss", shape_text(loss));
    diagnostic.hint = "end with cross_entropy";
    throw ConfigError(std::move(diagnostic));
  }
}

}  // namespace lockstep
