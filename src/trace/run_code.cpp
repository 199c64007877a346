#include "trace/run_code.h"

#include "guards/storage_watch.h"
#include "python/gil.h"
#include "runtime/random_state.h"
#include "runtime/undo_log.h"
#include "trace/operator_keys.h"
#include "trace/verify.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/variable.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace dynrun::trace {

namespace {

/// The operators themselves, after what was compiled for them failed and nothing that can be seen has changed: null when they
/// raise too. Else it is our bug, which only --verify may report.
std::shared_ptr<runtime::Executable> run_operators(const Segment& segment, const runtime::Executable& failed, const std::vector<at::Tensor>& inputs, bool verify, std::vector<at::Tensor>& outputs) {
  if (segment.writes_outside || failed.replays_operators()) return nullptr;
  std::shared_ptr<runtime::Executable> replayer = runtime::make_replayer(segment.graph);
  try {
    outputs = replayer->run(inputs);
  } catch (...) {
    return nullptr;
  }
  if (verify) end_program("a replay cannot run, though its operators can");
  return replayer;
}

/// Runs the operators on copies: at sizes that they never ran at one may raise after another has written an outside tensor. Throws
/// what it throws; random numbers are then those of before.
void rehearse(const Segment& segment, const std::vector<at::Tensor>& inputs) {
  const runtime::RandomState random(segment.drawn_from);
  runtime::make_replayer(segment.graph)->run(snapshot(inputs, segment.only_read));
  random.restore();
}

/// Notes that an operator of a replay warns, which Python code has to see in its place. Where outside tensors have been written it is
/// seen behind the replay; the next runs are tried on copies first.
class WarningNote final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { warnings.push_back(warning); }
  bool warned() const { return !warnings.empty(); }
  std::vector<c10::Warning> warnings;
};

/// Through torch's own way into Python's `warnings`. False with a Python error set, which a filter has made of one.
bool show(const std::vector<c10::Warning>& warnings) {
  if (warnings.empty()) return true;
  try {
    const torch::PyWarningHandler handler;
    for (const c10::Warning& warning : warnings) c10::warn(warning);
  } catch (python_error& error) {
    error.restore();
    return false;
  }
  return true;
}

/// What was compiled for a segment that writes outside tensors runs on copies first: if it raises half-way, which is our bug, nothing
/// is written twice, and the operators themselves take its place, which put back what they have written if they raise too. Operators of programs run only when the program runs them.
std::shared_ptr<runtime::Executable> tried_on_copies(const Segment& segment, std::shared_ptr<runtime::Executable> executable, const std::vector<at::Tensor>& inputs, const runtime::RandomState& random) {
  constexpr std::size_t kMuch = std::size_t{1} << 30;  // bytes
  std::size_t bytes = 0;
  for (const at::Tensor& input : inputs) bytes += input.has_storage() ? input.storage().nbytes() : 0;
  const auto& nodes = segment.graph->nodes;
  const bool ours = std::all_of(nodes.begin(), nodes.end(), [](const graph::Node& node) { return node.op.operator_name().name.rfind("aten::", 0) == 0; });
  if (!ours || bytes > kMuch) return executable;
  WarningNote note;
  const c10::WarningUtils::WarningHandlerGuard noted(&note);
  try {
    executable->run(snapshot(inputs, segment.only_read));
  } catch (...) {
    random.restore();
    if (!runtime::UndoLog::covers(*segment.graph)) throw;  // the operators may raise as well
    return runtime::make_undoing_replayer(segment.graph);
  }
  random.restore();
  return executable;
}

/// Keeps what autocast casts out of its cache while it lives, in regions that a segment begins itself.
class AutocastCache {
 public:
  explicit AutocastCache(bool off) : before_(at::autocast::is_autocast_cache_enabled()) {
    if (off) at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  AutocastCache(const AutocastCache&) = delete;
  AutocastCache& operator=(const AutocastCache&) = delete;

 private:
  bool before_;
};

bool have_types(const std::vector<at::Tensor>& tensors, const std::vector<graph::TensorType>& types) {
  for (std::size_t i = 0; i < tensors.size(); i++) {
    if (tensors[i].defined() && !types[i].unsized && (tensors[i].sizes() != c10::IntArrayRef(types[i].sizes) || tensors[i].strides() != c10::IntArrayRef(types[i].strides))) return false;
  }
  return true;
}

/// A view that was made before its memory was written knows that.
void match_view(const Segment::OutputTraits& traits, bool grad, const at::Tensor& tensor) {
  auto* view = grad || !traits.written_since ? nullptr : torch::autograd::impl::get_view_autograd_meta(tensor);
  if (view && view->has_bw_view()) view->set_attr_version(tensor._version() - *traits.written_since);
}

/// A view of a tensor that nobody sees, as operators give it that are made of others: autograd knows how it was made.
at::Tensor as_view(const at::Tensor& tensor, std::uint8_t creation) {
  const at::AutoGradMode with_grad(true);
  at::Tensor view = tensor.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (auto* meta = torch::autograd::impl::get_view_autograd_meta(view); meta && meta->has_bw_view()) meta->set_creation_meta(static_cast<torch::autograd::CreationMeta>(creation));
  return view;
}

/// Version counters and view-ness as eager leaves them, where a compiled graph took another way.
void match_traits(const Segment& segment, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs) {
  const bool grad = segment.any_grad_mode;
  for (std::size_t i = 0; i < outputs.size(); i++) {
    at::Tensor& tensor = outputs[i];
    if (!tensor.defined() || tensor.is_inference()) continue;
    const auto& traits = segment.output_traits[i];
    if (!traits.is_view && tensor.is_view() && !(grad && tensor.requires_grad())) tensor = tensor.detach();
    if (traits.creation && !tensor.is_view() && !tensor.requires_grad()) tensor = as_view(tensor, *traits.creation);
    if (!tensor.requires_grad()) {
      // A tensor from outside has a version of its own, which the writes themselves count up.
      auto is_outside = [&] { return std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) { return input.is_alias_of(tensor); }); };
      c10::VariableVersion version(tensor.unsafeGetTensorImpl()->version_counter());
      if (version.current_version() != traits.version && !is_outside()) version.set_version(traits.version);
    }
    match_view(traits, grad, tensor);
  }
}

/// One run: what it takes from the segment's code while it has the GIL, and what it has to tell it afterwards.
struct Run {
  std::shared_ptr<runtime::Executable> executable;
  bool careful;    // an operator may raise where outside tensors have been written
  bool is_first;   // outside tensors are written, and this executable has not run on copies yet
  bool timed = false;
  std::uint64_t ticks = 0;
  std::vector<c10::Warning> warnings = {};
  bool untouched = false;  // the warnings are of the run on copies

  bool warned() const { return !warnings.empty(); }
};

enum class Ended : std::uint8_t { kWell, kRaised, kFailed };

/// Has no GIL.
Ended run_executable(Run& run, const Segment& segment, const std::vector<at::Tensor>& inputs, const runtime::RandomState& random, bool verify, std::vector<at::Tensor>& outputs) {
  WarningNote note;
  std::vector<at::Tensor> copies;
  try {
    const c10::WarningUtils::WarningHandlerGuard noted(&note);
    if (verify) copies = snapshot(inputs);
    if (run.careful) rehearse(segment, inputs);
    if (note.warned()) {
      run.warnings = std::move(note.warnings);
      run.untouched = true;
      return Ended::kFailed;
    }
    if (run.is_first) run.executable = tried_on_copies(segment, std::move(run.executable), inputs, random);
    const AutocastCache cache(segment.sets_autocast && segment.state.autocast_nesting == 0);
    const std::uint64_t start = run.timed ? report::ticks() : 0;
    outputs = run.executable->run(inputs);
    if (run.timed) run.ticks = report::ticks() - start;
    run.warnings = std::move(note.warnings);
    if (verify && segment.drawn_from.empty()) verify_outputs(segment.graph, copies, outputs);
    return Ended::kWell;
  } catch (const VerifyError& error) {
    end_program(error.what());
  } catch (const c10::Error& error) {
    // No program makes libtorch's own assertions fail: a node that was built wrong would only be slow, and never be seen.
    const char* text = error.what_without_backtrace();
    if (verify && std::string_view(text).find("INTERNAL ASSERT") != std::string_view::npos) end_program(fmt::format("a replay cannot run: {}", text));
  } catch (const runtime::ForeignError&) {
    return Ended::kRaised;
  } catch (...) {
  }
  run.warnings = std::move(note.warnings);
  if (verify && segment.writes_outside) verify_unwritten(inputs, copies);
  return Ended::kFailed;
}

/// What was folded of a tensor that the run has written is dropped, whether its version counter tells or not. Has no GIL.
void note_writes(const Segment& segment, const std::vector<at::Tensor>& inputs) {
  for (std::size_t i : segment.written_inputs) guards::note_written(inputs[i]);
}

bool takes_time(Segment& segment) { return segment.timed && segment.code_sampler.takes(); }

void note_time(const Run& run, Segment& segment) {
  segment.code_ticks = run.ticks;
  if (run.timed) segment.code_sampler.took(run.ticks);
}

/// Has no GIL. Null where the operators raise too, or cannot be run again.
std::shared_ptr<runtime::Executable> run_instead(const Run& run, const Segment& segment, const std::vector<at::Tensor>& inputs, const runtime::RandomState& random, bool verify, std::vector<at::Tensor>& outputs) {
  random.restore();
  std::shared_ptr<runtime::Executable> operators = run_operators(segment, *run.executable, inputs, verify, outputs);
  if (!operators) random.restore();
  return operators;
}

/// The segment's operators, with the casts that torch has kept of weights. (Nothing to verify: of copies it has none.)
ReplayResult run_kept_casts(Segment& segment, WeightCasts::State state, const std::vector<at::Tensor>& inputs, const runtime::RandomState& random, std::vector<at::Tensor>& outputs) {
  if (!segment.kept_casts) segment.kept_casts = runtime::make_replayer(segment.graph);
  Run run{segment.kept_casts, segment.writes_outside, false, takes_time(segment)};
  bool done = false;
  {
    const python::NoGil released;
    done = run_executable(run, segment, inputs, random, false, outputs) == Ended::kWell && (!run.warned() || segment.writes_outside);
    note_writes(segment, inputs);
    if (done) match_traits(segment, inputs, outputs);
    else random.restore();
  }
  note_time(run, segment);
  if (done && state == WeightCasts::State::kLearning) segment.weight_casts.learn(inputs);
  if (done && !show(run.warnings)) return ReplayResult::kRaised;
  return done ? ReplayResult::kDone : ReplayResult::kFailed;
}

}  // namespace

ReplayResult run_code(Segment& segment, const std::vector<at::Tensor>& inputs, Code& code, const runtime::RandomState& random, bool verify, std::vector<at::Tensor>& outputs) {
  c10::impl::ExcludeDispatchKeyGuard uncounted(kRecordedKeys);
  const bool operators = code.executable->replays_operators();
  const bool as_they_are = segment.backend != 0 || (operators && !verify);  // back ends cast weights as the nodes say
  const auto casts = as_they_are ? WeightCasts::State::kFresh : segment.weight_casts.look(inputs);
  if (casts != WeightCasts::State::kFresh) return run_kept_casts(segment, casts, inputs, random, outputs);
  const std::shared_ptr<runtime::Executable> taken = code.executable;
  const bool writes_compiled = segment.writes_outside && segment.backend == 0 && !taken->replays_operators();
  const bool warned_before = code.failed && segment.writes_outside;  // Python has to see the next warning in its place
  Run run{taken, ((code.untried || code.unproven) && !taken->undoes()) || warned_before, writes_compiled && code.rehearsed.lock() != taken, takes_time(segment)};
  Ended ended;
  bool anew = false;  // in the VM: the warning has to come from there
  std::shared_ptr<runtime::Executable> instead;
  {
    const python::NoGil released;
    ended = run_executable(run, segment, inputs, random, verify, outputs);
    anew = run.warned() && (!segment.writes_outside || run.untouched);
    if (ended == Ended::kFailed && !anew) instead = run_instead(run, segment, inputs, random, verify, outputs);
    note_writes(segment, inputs);
    if (instead || (ended == Ended::kWell && !anew)) match_traits(segment, inputs, outputs);
  }
  if (ended == Ended::kRaised) return ReplayResult::kRaised;
  note_time(run, segment);
  const bool lowered_anew = code.executable != taken;
  if (run.is_first && !lowered_anew) code.rehearsed = code.executable = run.executable;
  if (ended == Ended::kWell) code.untried = false;
  code.failed = ended == Ended::kFailed || run.warned();
  if (anew) {
    random.restore();
    return ReplayResult::kFailed;
  }
  if (ended == Ended::kFailed && !instead) return ReplayResult::kFailed;
  if (instead && !lowered_anew) code.executable = std::move(instead);
  if (!code.expected.empty()) code.as_expected = code.as_expected && have_types(outputs, code.expected);
  if (!show(run.warnings)) return ReplayResult::kRaised;  // what is written cannot be run again
  return ReplayResult::kDone;
}

}  // namespace dynrun::trace
