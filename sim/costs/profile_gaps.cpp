// Sentences for the user about differences between a profile and a step: a model, precision, input
// size, batch or layer that the profile lacks, or times of layers that the model does not have. The
// checks go from coarse to fine. They stop at the first level that does not match, because
// mismatches of all finer levels would follow from it.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "costs/profile.hpp"

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

// Adds a name at the end if the list does not contain it.
void note(Names& names, std::string name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
}

// At most five names and the number of the others, for example "a, b, c, d, e and 3 more".
std::string listed(const Names& names) {
  constexpr std::size_t most = 5;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(names.size(), most));
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

std::string none(const std::string& subject, const Names& others) {
  return fmt::format("the profile has no figures for {} (it has {}): modelled", subject,
                     listed(others));
}

// Adds sentences about layers that only the model has, or only this batch of the profile.
void compare_layers(const ProfileBatch& batch, const TrainingStep& step, Names& gaps) {
  std::set<std::string> measured, known;
  for (const ProfileLayer& layer : batch.layers) measured.insert(layer.name);
  Names missing, foreign;
  for (const Layer& layer : step.layers) {
    known.insert(layer.name);
    const bool works = !layer.forward.empty() || !layer.backward.empty();
    if (works && measured.count(layer.name) == 0) missing.push_back(layer.name);
  }
  for (const ProfileLayer& layer : batch.layers) {
    if (known.count(layer.name) == 0) foreign.push_back(layer.name);
  }
  const std::string where = fmt::format("{} in batches of {}", step.model, batch.samples);
  if (!missing.empty())
    gaps.push_back(
        fmt::format("the profile has no figures for {} of {}: modelled", listed(missing), where));
  if (!foreign.empty())
    gaps.push_back(fmt::format("the profile of {} has figures for {}: not in the model", where,
                               listed(foreign)));
}

}  // namespace

std::vector<std::string> profile_gaps(const Profile& profile, const TrainingStep& step) {
  if (profile.models.empty()) return {};
  Names models, precisions, inputs, batches, gaps;
  for (const ProfileModel& model : profile.models) {
    note(models, model.model);
    if (model.model != step.model) continue;
    note(precisions, enum_name(model.precision));
    if (model.precision == step.precision)
      note(inputs, fmt::format("{} B", model.input_bytes_per_sample));
  }
  const std::string precision = enum_name(step.precision);
  if (precisions.empty()) return {none(step.model, models)};
  if (inputs.empty()) return {none(fmt::format("{} in {}", step.model, precision), precisions)};
  const ProfileModel* model = measured_model(profile, step);
  if (model == nullptr) {
    const double bytes = step.input_bytes / static_cast<double>(step.samples);
    return {none(fmt::format("{} with {} B per sample", step.model, bytes), inputs)};
  }
  for (const ProfileBatch& batch : model->batches) note(batches, std::to_string(batch.samples));
  if (!answers_batch(*model, step.samples))
    gaps.push_back(none(fmt::format("{} in batches of {}", step.model, step.samples), batches));
  for (const ProfileBatch& batch : model->batches) {
    const std::size_t before = gaps.size();
    compare_layers(batch, step, gaps);
    if (gaps.size() > before) break;  // other batches have the same gaps
  }
  return gaps;
}

}  // namespace lockstep
