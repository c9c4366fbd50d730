// A measured profile: what the calibrator writes about one device and its software, and the cost
// source that serves it. Format: docs/profile-format.md. A layer is answered, in this order,
//   measured      the profile has this model, input, precision and batch
//   interpolated  the batch lies between two measured ones at most a factor 10 apart
//   modelled      otherwise, by the cost source behind (the roofline model); at another batch of a
//                 measured model times what the measured batches took of their modelled times; so
//                 too the backward pass where only the forward pass was measured
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
  int samples = 0;             // repetitions behind every figure
  double relative_spread = 0;  // median over layers of (90th percentile - median) / median
};

// All 0, or left out: dispatch is part of the layer times, as on CPUs, where one thread does both.
struct ProfileHost {
  double operator_seconds = 0;           // dispatch of one forward operator
  double backward_operator_seconds = 0;  // of one backward operator
  double launch_seconds = 0;             // one more launch inside an operator
  double update_operator_seconds = 0;    // of one of an update in a loop; 0 = operator_seconds
};

struct ProfileLayer {
  std::string name;                        // as in the model file
  double forward_seconds = 0;              // device time, medians
  std::optional<double> backward_seconds;  // absent = not measured
  // Interquartile range over median; 0 = not noted. So for every `iqr` here.
  double forward_iqr = 0;
  double backward_iqr = 0;
  // Largest block of memory that came and went while it was computed, as cuDNN takes one for a
  // convolution. Absent = not measured.
  std::optional<double> forward_workspace = std::nullopt, backward_workspace = std::nullopt;
};

// Bytes of tensors of one rank's step, optimizer state included. 0 = not measured.
struct ProfileMemory {
  double parameters = 0;
  double buffers = 0;  // running statistics and the like
  double optimizer_state = 0;
  double saved_activations = 0;  // live after forward, beyond all that and the batch
  double peak = 0;               // of everything
  double reserved = 0;           // by the caching allocator; 0 on CPUs
  double kept = 0;               // live between steps beyond all that; 0 on CPUs
};

struct ProfileBatch {
  std::int64_t samples = 0;
  // Standard deviation of the logarithm of the whole step from one step to the next, without drift:
  // the sigma of a lognormal jitter per step. 0 = not measured.
  double step_sigma = 0;
  // Single steps of all ranks over the median of their neighbours, interruptions included: the
  // distribution of the jitter itself. Empty = not measured.
  std::vector<double> step_factors;
  // As of ProfileHost, of this model and batch; 0 = ProfileHost's. Of its layers only.
  double operator_seconds = 0;
  double backward_operator_seconds = 0;
  double update_operator_seconds = 0;
  std::vector<ProfileLayer> layers;  // forward order
  std::optional<ProfileMemory> memory;
};

struct ProfileModel {
  std::string model;
  Precision precision = Precision::fp32;
  double input_bytes_per_sample =
      0;  // identifies the input size (TrainingStep::input_bytes / samples)
  std::vector<ProfileBatch> batches;  // ascending
};

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
  double bytes = 0;             // of the bucket's gradients
  std::vector<double> seconds;  // of each stage, medians: before each collective, after the last
};
struct ProfileHook {  // a communication hook's work on a bucket
  HookSettings settings;
  std::string model;                     // whose gradients filled the buckets
  std::vector<ProfileHookPoint> points;  // ascending bytes
};

struct ProfileCurvePoint {
  double bytes = 0;
  double seconds = 0;
  double host_seconds = 0;  // CPU time of one rank's process meanwhile; 0 = not measured
  // While every rank computes beside it, relative to alone; 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  double sender_seconds = 0;    // send_recv: after which the sender is free; 0 = not measured
  double one_core_seconds = 0;  // send_recv: both processes on one core; 0 = not measured
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
  double matmul_workspace_bytes = 0;  // fact 124
  // What libraries keep between steps, of a single rank's plain training: the median of what was kept
  // with the models. 0 = not measured.
  double kept_bytes = 0;
};

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
  bool complete = true;  // the end mark: the last line of the file
};

// `path`: a file, or a folder that holds profile.yaml. Throws ConfigError: unknown fields, batches
// or sizes not ascending, times not positive, a file that was cut off.
Profile load_profile(const std::string& path);
// The same. One of megabytes takes a second to read: the file that was read last is remembered, until
// its size or time changes. From any thread.
std::shared_ptr<const Profile> shared_profile(const std::string& path);
Profile parse_profile(const Node& node);
std::string profile_schema();                      // JSON Schema of profile.yaml
std::string profile_fields();                      // its fields, as a Markdown table
std::string profile_text(const Profile& profile);  // YAML that load_profile reads back equal

// Puts what the profile says about the machine itself into it: collective curves (before the
// machine's own, so that they win) and the allocator's facts.
void apply_profile(const Profile& profile, Machine& machine);

// The profile's model of `step`'s name, precision and input size; null = there is none.
const ProfileModel* measured_model(const Profile& profile, const TrainingStep& step);
// Whether the batch was measured, or lies between two that were and are close enough.
bool answers_batch(const ProfileModel& model, std::int64_t samples);

// ProfileBatch::step_sigma of `step`'s model, precision, input size and batch; 0 = not measured.
double measured_step_sigma(const Profile& profile, const TrainingStep& step);

// Replaces the workspaces of `step`'s convolutions by measured ones: linear in the batch between two,
// in proportion to it beyond the nearest. What was not measured stays as it is.
void use_measured_workspaces(const Profile& profile, TrainingStep& step);

// The measured batches of `step`'s model that its layers are scaled by where its own batch is
// modelled: the next smaller and the next larger one, as there are. None where it is not modelled.
std::vector<std::int64_t> neighbouring_batches(const Profile& profile, const TrainingStep& step);

// What of `step` the profile was probably meant to answer and does not, and what it has for nobody:
// sentences for the user. Nothing when it holds no layer times at all.
std::vector<std::string> profile_gaps(const Profile& profile, const TrainingStep& step);

// What a profile says of a model that it does not have, from those it has.
struct ProfileKin {
  struct Share {  // of its modelled time that a layer takes
    double forward = 1, backward = 1;
  };
  std::map<std::string, Share> layers;                         // by layer_class()
  double operator_seconds = 0, backward_operator_seconds = 0;  // of the host; 0 = profile.host's
};

// Layers that a model of the device is alike wrong about: of one kind, convolutions told apart by
// whether they are pointwise, depthwise or grouped.
std::string layer_class(const Layer& layer);

// `measured`: steps that the profile has layer times of, in the precision of `step`. Each counts as far as
// it is alike: by the cosine between its operators and `step`'s, by kind of layer. Shares are sums over all
// layers of a class, where there are four or more, to the power of the largest likeness among them;
// operators cost the host what they cost in the one that is most alike.
ProfileKin profile_kin(const Profile& profile, const ComputeCosts& modelled,
                       const std::vector<TrainingStep>& measured, const TrainingStep& step);

// Serves `profile`; asks `fallback` for what it does not know. `neighbours`: the step that layers
// will be asked of, at its neighbouring batches; `kin`: of a model that the profile does not have.
// Without them the model's times stay as they are.
std::unique_ptr<ComputeCosts> profile_costs(std::shared_ptr<const Profile> profile,
                                            std::shared_ptr<const ComputeCosts> fallback,
                                            std::vector<TrainingStep> neighbours = {},
                                            const ProfileKin& kin = {});

}  // namespace lockstep
