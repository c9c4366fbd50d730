// A cost source that combines the answers of other sources by a rule. It is used for anchors
// (factors from a measured step), for questions about a changed machine, and for jobs with several
// kinds of devices.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "costs/compute.hpp"

namespace lockstep {

// Asks every source and applies the rule to the answers. The fields of a layer that are not
// durations come from the first source.
class TransformedCosts final : public ComputeCosts {
 public:
  using Sources = std::vector<std::shared_ptr<const ComputeCosts>>;
  // Both functions get the sources' answers in order. `work` combines pieces of work; `seconds`
  // combines the device seconds that explanations and the interference model use.
  struct Rule {
    std::function<QueuedWork(const std::vector<QueuedWork>&)> work;
    std::function<double(const std::vector<double>&)> seconds;
  };
  TransformedCosts(Sources sources, Rule rule)
      : sources_(std::move(sources)), rule_(std::move(rule)) {}

  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    std::vector<LayerCost> answers;
    for (const auto& source : sources_) answers.push_back(source->layer(step, index));
    const auto each = [&answers](auto part) {
      std::vector<std::remove_reference_t<decltype(answers.front().*part)>> values;
      for (const LayerCost& answer : answers) values.push_back(answer.*part);
      return values;
    };
    LayerCost cost = answers.front();
    for (auto part : {&LayerCost::forward, &LayerCost::backward, &LayerCost::weight_gradient,
                      &LayerCost::input_gradient})
      cost.*part = rule_.work(each(part));
    for (auto part : {&LayerCost::memory_bound, &LayerCost::arithmetic, &LayerCost::streaming}) {
      cost.*part = rule_.seconds(each(part));
    }
    return cost;
  }
  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    return combined(
        [&](const auto& s) { return s.optimizer(optimizer, precision, elements, tensors); });
  }
  QueuedWork stream(double bytes, int launches) const override {
    return combined([&](const auto& s) { return s.stream(bytes, launches); });
  }
  // Hooks are measured and not modelled. With several sources, the first source's answer is
  // returned unchanged.
  std::vector<QueuedWork> hook_stages(const HookSettings& settings, double bytes) const override {
    std::vector<QueuedWork> stages = sources_.front()->hook_stages(settings, bytes);
    if (sources_.size() > 1) return stages;
    for (QueuedWork& stage : stages) stage = rule_.work({stage});
    return stages;
  }

 private:
  template <class Question>
  QueuedWork combined(const Question& question) const {
    std::vector<QueuedWork> answers;
    for (const auto& source : sources_) answers.push_back(question(*source));
    return rule_.work(answers);
  }

  Sources sources_;
  Rule rule_;
};

}  // namespace lockstep
