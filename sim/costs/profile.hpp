// A measured profile: the calibration's numbers of one device and its software (profile.yaml,
// docs/profile-format.md), and the cost source that answers from it. The time of a layer comes from
// the first of these sources that exists:
//   measured      the profile has this model, input size, precision and batch
//   interpolated  the batch lies between two measured ones that are at most a factor of 10 apart
//   modelled      otherwise: the fallback's time (the roofline model), corrected
// If the model was measured, but not near this batch, the correction is the ratio of measured to
// modelled time at the neighbouring batches. If the model was not measured, it is the ratio of
// layers of the same class (ProfileKin). A backward pass that was not measured is modelled. A layer
// that the measured batches lack, and every layer that stays in fp32 (Layer::wide), has the
// fallback's time without a correction.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "core/yaml.hpp"
#include "costs/compute.hpp"
#include "costs/host.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

struct ProfileVersion {
  std::string name;     // "libtorch", "cuda", "driver"
  std::string version;  // as the component states it
};
struct ProfileSetting {
  std::string name;  // "threads", "cudnn_benchmark"
  std::string value;
};

struct ProfileNoise {
  int samples = 0;             // number of repetitions of every measurement
  double relative_spread = 0;  // median over layers of (90th percentile - median) / median
};

// Host seconds of dispatch. If all are 0 or left out, the layer times include dispatch, as on CPUs,
// where one thread dispatches and computes.
struct ProfileHost {
  double operator_seconds = 0;           // dispatch of one forward operator
  double backward_operator_seconds = 0;  // dispatch of one backward operator
  double launch_seconds = 0;             // one additional launch inside an operator
  double update_operator_seconds = 0;    // one operator of a for-loop update; 0 = operator_seconds
};

// Times of one layer at one batch.
struct ProfileLayer {
  std::string name;                        // as in the model file
  double forward_seconds = 0;              // device time, medians
  std::optional<double> backward_seconds;  // absent = not measured
  // Interquartile range over median, like every `iqr` in this file; 0 = not recorded.
  double forward_iqr = 0;
  double backward_iqr = 0;
  // Bytes of the largest temporary block during the layer, e.g. cuDNN's workspace of a convolution.
  // Absent = not measured.
  std::optional<double> forward_workspace = std::nullopt, backward_workspace = std::nullopt;
};

// Bytes of the tensors of one rank's step. 0 = not measured.
struct ProfileMemory {
  double parameters = 0;
  double buffers = 0;  // running statistics of batch norm and the like
  double optimizer_state = 0;
  double saved_activations = 0;  // live after forward, besides the fields above and the batch
  double peak = 0;               // of all tensors together
  double reserved = 0;           // by the caching allocator; 0 on CPUs
  double kept = 0;               // live between steps, besides the fields above; 0 on CPUs
};

// Everything measured of one model at one batch.
struct ProfileBatch {
  std::int64_t samples = 0;
  // Variation of the step time from one step to the next, with slow drift removed: the standard
  // deviation of its logarithm, which is the sigma of a lognormal jitter per step. 0 = not
  // measured.
  double step_sigma = 0;
  // Times of single steps of all ranks, each divided by the median of its neighbours in time;
  // interruptions are included. They are samples of the jitter's distribution. Empty = not
  // measured.
  std::vector<double> step_factors;
  // Host seconds as in ProfileHost, but measured with this model and batch, and used only for
  // layers; 0 = ProfileHost's. update_operator_seconds is only recorded: updates use ProfileHost's,
  // which is the median of all batches.
  double operator_seconds = 0;
  double backward_operator_seconds = 0;
  double update_operator_seconds = 0;
  std::vector<ProfileLayer> layers;  // forward order
  std::optional<ProfileMemory> memory;
};

// A measured model. Model, precision and input size identify it.
struct ProfileModel {
  std::string model;
  Precision precision = Precision::fp32;
  double input_bytes_per_sample =
      0;  // tells input sizes apart (TrainingStep::input_bytes / samples)
  std::vector<ProfileBatch> batches;  // ascending by samples
};

// One measured optimizer update of `elements` parameters in `tensors` tensors.
struct ProfileOptimizer {
  OptimizerKind name = OptimizerKind::sgd;
  OptimizerImplementation implementation = OptimizerImplementation::foreach;
  bool momentum = false;
  Precision precision = Precision::fp32;
  double elements = 0;
  int tensors = 1;
  double seconds = 0;
  double iqr = 0;
};

struct ProfileCopy {  // streaming through device memory, read + written
  double bytes = 0;
  double seconds = 0;
  double iqr = 0;
};

struct ProfileHookPoint {
  double bytes = 0;  // gradients of the bucket
  // Medians, one for each stage: one stage before each collective, and one after the last.
  std::vector<double> seconds;
};
struct ProfileHook {  // a communication hook's work on a bucket
  HookSettings settings;
  std::string model;                     // the model whose gradients filled the buckets
  std::vector<ProfileHookPoint> points;  // ascending bytes
};

struct ProfileCurvePoint {
  double bytes = 0;
  double seconds = 0;
  double host_seconds = 0;  // CPU time of one rank's process meanwhile; 0 = not measured
  // Speeds of the ranks' compute and of the collective while both run, relative to each running
  // alone; 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  double sender_seconds = 0;  // send_recv: time after which the sender is free; 0 = not measured
  // send_recv: time if both processes share one core; 0 = not measured.
  double one_core_seconds = 0;
};
struct ProfileCollective {
  std::string collective;  // a name of Collective: "all_reduce", ..., "send_recv"
  std::string backend;     // "gloo", "nccl"
  int ranks = 2;
  int nodes = 1;
  std::vector<ProfileCurvePoint> points;  // ascending bytes
};

struct ProfileAllocator {
  double context_bytes = 0;           // device memory used before the first tensor
  double matmul_workspace_bytes = 0;  // cuBLAS's workspace (fact 124 of docs/facts.md)
  // Bytes that libraries hold between steps in plain training on a single rank: the median over the
  // measured models. 0 = not measured.
  double kept_bytes = 0;
};

// A whole profile.yaml.
struct Profile {
  int format = 1;
  std::string device;  // name of the device file it belongs to
  std::string date;    // "2026-11-21"
  std::vector<ProfileVersion> versions;
  std::vector<ProfileSetting> settings;
  ProfileNoise noise;
  ProfileHost host;
  ProfileAllocator allocator;
  std::vector<ProfileModel> models;
  std::vector<ProfileOptimizer> optimizers;
  std::vector<ProfileCopy> copies;  // ascending bytes
  std::vector<ProfileHook> hooks;
  std::vector<ProfileCollective> collectives;
  bool complete = true;  // the end mark, which is the last line of the file
};

// Reads a profile. `path`: a file, or a folder that holds profile.yaml. Throws ConfigError for
// unknown fields and collectives, values outside of their ranges, batches or sizes that do not
// ascend, a hook with a wrong number of stages, and a file that was cut off.
Profile load_profile(const std::string& path);
// Reads a profile as load_profile() does, but through a cache of the file that was read last; a
// profile of megabytes takes a second to read. A cached profile is valid until the size or time of
// the file changes. Thread-safe.
std::shared_ptr<const Profile> shared_profile(const std::string& path);
Profile parse_profile(const Node& node);
std::string profile_schema();                      // JSON Schema of profile.yaml
std::string profile_fields();                      // its fields, as a Markdown table
std::string profile_text(const Profile& profile);  // YAML that load_profile reads back equal

// Puts the profile's facts about the machine into `machine`: the allocator's numbers that were
// measured, and collective curves. The curves are placed before the machine's own and so take
// precedence.
void apply_profile(const Profile& profile, Machine& machine);

// The profile's model with the name, precision and input size of the step; nullptr if there is none
// or if TrainingStep::whole_layers is false.
const ProfileModel* measured_model(const Profile& profile, const TrainingStep& step);
// Whether the batch was measured, or lies between two measured ones that are at most a factor of 10
// apart.
bool answers_batch(const ProfileModel& model, std::int64_t samples);

// ProfileBatch::step_sigma of `step`'s model, precision, input size and batch; 0 = not measured.
double measured_step_sigma(const Profile& profile, const TrainingStep& step);

// Replaces the workspaces of the step's convolutions by measured ones. Between two measured batches
// that are at most a factor of 10 apart, they are linear in the batch. Otherwise they are in
// proportion to the next smaller measured batch, or to the smallest one if none is smaller.
// Workspaces that were not measured are unchanged.
void use_measured_workspaces(const Profile& profile, TrainingStep& step);

// The measured batches by which the step's layers are corrected if its own batch is modelled: the
// next smaller and the next larger one, as far as they exist. Empty if the batch is measured or
// interpolated.
std::vector<std::int64_t> neighbouring_batches(const Profile& profile, const TrainingStep& step);

// Sentences for the user about times of the step that the profile lacks, and about times in the
// profile that match no layer of the step. Empty if the profile holds no layer times at all.
std::vector<std::string> profile_gaps(const Profile& profile, const TrainingStep& step);

// Corrections for a model that the profile lacks, derived from the models that it has.
struct ProfileKin {
  struct Share {  // ratios of measured to modelled device seconds
    double forward = 1, backward = 1;
  };
  std::map<std::string, Share> layers;                         // by layer_class()
  double operator_seconds = 0, backward_operator_seconds = 0;  // host seconds; 0 = profile.host's
};

// The class of a layer. Layers of one class have similar errors in the kernel model. The class is
// the kind of the layer; pointwise, depthwise and grouped convolutions are classes of their own.
std::string layer_class(const Layer& layer);

// Derives corrections for `step`. `measured`: steps whose layer times the profile has, in the
// precision of `step`. Each step's operators are counted by kind of layer; the likeness of a
// measured step is the cosine of its vector of counts and the vector of `step`. A class with four
// or more measured layers has a ratio: the sum of measured over the sum of modelled seconds, both
// weighted by likeness, raised to the largest likeness among the class's steps. A layer whose
// backward was not measured does not count. Host seconds per operator come from the step with the
// largest likeness that has them.
ProfileKin profile_kin(const Profile& profile, const ComputeCosts& modelled,
                       const std::vector<TrainingStep>& measured, const TrainingStep& step);

// A cost source that answers from `profile`, and from `fallback` for all other work. `neighbours`:
// the step at its neighbouring_batches(). `kin`: corrections for a model that the profile lacks. If
// both are left out, modelled times are not corrected.
std::unique_ptr<ComputeCosts> profile_costs(std::shared_ptr<const Profile> profile,
                                            std::shared_ptr<const ComputeCosts> fallback,
                                            std::vector<TrainingStep> neighbours = {},
                                            const ProfileKin& kin = {});

}  // namespace lockstep
