#include "cli/options.h"

#include "cli/error.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace dynrun::cli {

namespace {

constexpr const char* kOptionsVariable = "DYNRUN_OPTIONS";
constexpr std::string_view kPythonLettersWithArgument = "cmWX";

struct Choice {
  std::string_view name;
  int value;
};
constexpr std::array kVmChoices{Choice{"auto", kDynrunVmAuto}, Choice{"all", kDynrunVmAll}, Choice{"off", kDynrunVmOff}};
constexpr std::array kDynamicChoices{Choice{"auto", kDynrunDynamicAuto}, Choice{"on", kDynrunDynamicOn}, Choice{"off", kDynrunDynamicOff}};
constexpr std::array kTorchCompileChoices{Choice{"serve", 0}, Choice{"keep", 1}};
constexpr std::array kExplainChoices{Choice{"text", kDynrunExplainText}, Choice{"json", kDynrunExplainJson}};
constexpr std::array kStressChoices{Choice{"break", kDynrunStressBreak},   Choice{"guards", kDynrunStressGuards},
                                    Choice{"first", kDynrunStressFirst},   Choice{"extern", kDynrunStressExtern},
                                    Choice{"drop", kDynrunStressDrop},     Choice{"handover", kDynrunStressHandover}};
constexpr std::array<std::string_view, 7> kStages{"bytecode", "graph", "loops", "llvm", "asm", "ptx", "guards"};

template <typename Choices>
int choose(std::string_view option, std::string_view value, const Choices& choices, std::string_view others = "") {
  std::string names;
  for (const Choice& choice : choices) {
    if (choice.name == value) return choice.value;
    names += names.empty() ? "" : ", ";
    names += choice.name;
  }
  throw UserError(fmt::format("--{} cannot be '{}': it is one of {}{}", option, value, names, others), 2);
}

std::string_view needed(std::string_view option, const std::optional<std::string_view>& value, std::string_view what) {
  if (!value || value->empty()) throw UserError(fmt::format("--{0} needs a value: --{0}={1}", option, what), 2);
  return *value;
}

void set_help(Options& options, std::optional<std::string_view>) { options.help = true; }
void set_version(Options& options, std::optional<std::string_view>) { options.version = true; }
void set_dynamic(Options& options, std::optional<std::string_view> value) {
  options.dynamic = static_cast<DynrunDynamic>(choose("dynamic", needed("dynamic", value, "auto|on|off"), kDynamicChoices));
}

void set_fullgraph(Options& options, std::optional<std::string_view>) { options.fullgraph = true; }
void set_quiet(Options& options, std::optional<std::string_view>) { options.quiet = true; }
void set_verify(Options& options, std::optional<std::string_view>) { options.verify = true; }

void set_torch_compile(Options& options, std::optional<std::string_view> value) {
  options.keep_torch_compile = choose("torch-compile", needed("torch-compile", value, "serve|keep"), kTorchCompileChoices) != 0;
}

std::string absolute_path(std::string_view value) {
  std::error_code error;
  const std::filesystem::path path(value);
  const std::string absolute = std::filesystem::absolute(path, error).string();
  return error ? path.string() : absolute;
}

void set_cache(Options& options, std::optional<std::string_view> value) {
  const std::string_view where = needed("cache", value, "DIR|off");
  options.cache = where == "off" ? "off" : absolute_path(where);
}

void set_python(Options& options, std::optional<std::string_view> value) {
  options.python = needed("python", value, "PATH");
}

void set_vm(Options& options, std::optional<std::string_view> value) {
  options.vm = static_cast<DynrunVm>(choose("vm", needed("vm", value, "auto|all|off"), kVmChoices));
}

void set_explain(Options& options, std::optional<std::string_view> value) {
  if (value && *value == "ids") {
    options.explain_ids = true;
    return;
  }
  options.child = false;  // asked for here, not only by the parent
  if (value && value->rfind("html:", 0) == 0) {
    options.html_file = absolute_path(needed("explain", value->substr(5), "html:FILE"));
    return;
  }
  if (value && value->rfind("json:", 0) == 0) {
    options.explain_file = absolute_path(needed("explain", value->substr(5), "json:FILE"));
    return;
  }
  options.explain = value ? static_cast<DynrunExplain>(choose("explain", *value, kExplainChoices, ", json:FILE, html:FILE, ids")) : kDynrunExplainText;
}

void set_stats(Options& options, std::optional<std::string_view> value) {
  options.child = false;
  options.stats_file = absolute_path(needed("stats", value, "FILE"));
}

void set_dump(Options& options, std::optional<std::string_view> value) {
  const std::string_view text = needed("dump", value, "STAGE[:FILTER]");
  const auto colon = text.find(':');
  Dump dump{std::string(text.substr(0, colon)), colon == text.npos ? "" : std::string(text.substr(colon + 1))};
  if (std::find(kStages.begin(), kStages.end(), dump.stage) == kStages.end()) {
    throw UserError(fmt::format("--dump has no stage '{}': it is one of {}", dump.stage, fmt::join(kStages, ", ")), 2);
  }
  options.dumps.push_back(std::move(dump));
}

void set_stress(Options& options, std::optional<std::string_view> value) {
  std::string_view rest = needed("stress", value, "MODE[,MODE]");
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    options.stress |= static_cast<std::uint32_t>(choose("stress", rest.substr(0, comma), kStressChoices));
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
  }
}

void set_parent(Options& options, std::optional<std::string_view> value) {
  // A process that replaces itself (os.execv) is no child: it keeps the process id.
  options.child = needed("parent", value, "PID") != std::to_string(getpid());
}

struct Option {
  std::string_view name;
  std::string_view argument;  // how --help shows it
  bool takes_value;
  void (*set)(Options&, std::optional<std::string_view>);
  std::string_view help;  // empty: not shown
};

constexpr std::array kOptions{
    Option{"help", "", false, set_help, "show this text (python's own is shown by -h)"},
    Option{"version", "", false, set_version, "show dynrun's version, and the CPython and PyTorch it was built for"},
    Option{"python", "=PATH", true, set_python,
           "the CPython 3.12 or environment to run (else the active environment's, else the one dynrun was built with)"},
    Option{"explain", "[=text|json]", true, set_explain, "after the script: what was captured, every graph break with its cost and cure, every guard miss"},
    Option{"explain", "=json:FILE, html:FILE", true, set_explain, "the same in a file; as a page with the sources, coloured"},
    Option{"explain", "=ids", true, set_explain, "show the table of graph breaks: ids, meanings, cures"},
    Option{"stats", "=FILE", true, set_stats, "write the same as JSON"},
    Option{"dump", "=STAGE[:FILTER]", true, set_dump,
           "show bytecode, graph, loops, llvm, asm, ptx or guards of code whose file:line:function holds FILTER"},
    Option{"vm", "=auto|all|off", true, set_vm, "which frames dynrun's VM runs: code that uses torch, all, none"},
    Option{"cache", "=DIR|off", true, set_cache, "where compiled kernels are kept between runs (~/.cache/dynrun/kernels); off: nowhere"},
    Option{"dynamic", "=auto|on|off", true, set_dynamic, "auto (the default): sizes that change are left open; on: all sizes; off: a segment a size"},
    Option{"fullgraph", "", false, set_fullgraph, "a graph break in a forward or in a function of the program's own is an error"},
    Option{"quiet", "", false, set_quiet, "no line on the terminal while something compiles for over a second"},
    Option{"torch-compile", "=serve|keep", true, set_torch_compile, "serve (the default): torch.compile in the script records with dynrun; keep: it stays torch's own"},
    Option{"verify", "", false, set_verify, "run each replay eagerly as well and compare"},
    Option{"stress", "=MODE[,MODE]", true, set_stress, "test modes: break, guards, first, extern, drop, handover"},
    Option{"parent", "=PID", true, set_parent, ""},
};

/// Applies `argument` ("--name" or "--name=value"). False when it is not dynrun's.
bool apply_option(Options& options, std::string_view argument) {
  const auto equals = argument.find('=');
  const std::string_view name = argument.substr(2, equals == argument.npos ? argument.npos : equals - 2);
  for (const Option& option : kOptions) {
    if (option.name != name) continue;
    std::optional<std::string_view> value;
    if (equals != argument.npos) value = argument.substr(equals + 1);
    if (value && !option.takes_value) throw UserError(fmt::format("--{} takes no value", name), 2);
    option.set(options, value);
    return true;
  }
  return false;
}

bool is_python_long_option(std::string_view argument) {
  return argument == "--check-hash-based-pycs" || argument == "--help-all" || argument == "--help-env" ||
         argument == "--help-xoptions";
}

/// Words of DYNRUN_OPTIONS: separated by blanks, a backslash keeps the next character.
std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ' || text[at] == '\t' || text[at] == '\n') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
      continue;
    }
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    word += text[at];
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

void append_word(std::string& text, std::string_view word) {
  if (!text.empty()) text += ' ';
  for (const char character : word) {
    if (character == ' ' || character == '\t' || character == '\n' || character == '\\') text += '\\';
    text += character;
  }
}

void read_variable(Options& options) {
  const char* variable = std::getenv(kOptionsVariable);
  if (!variable) return;
  for (const std::string& word : split_words(variable)) {
    if (word.size() < 3 || word.compare(0, 2, "--") != 0 || !apply_option(options, word)) {
      throw UserError(fmt::format("{} holds '{}', which is no option of dynrun's: see dynrun --help", kOptionsVariable, word), 2);
    }
  }
}

template <typename Choices>
std::string_view name_of(int value, const Choices& choices) {
  for (const Choice& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return {};
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  read_variable(options);
  for (std::string* file : {&options.stats_file, &options.explain_file, &options.html_file}) {
    if (options.child && !file->empty()) *file += fmt::format(".{}", getpid());
  }
  options.python_arguments.push_back(argc > 0 ? argv[0] : "dynrun");
  int at = 1;
  bool script_found = false;
  for (; at < argc && !script_found; ++at) {
    const std::string_view argument(argv[at]);
    if (argument.size() < 2 || argument[0] != '-') break;  // the script, or "-"
    if (argument == "--") break;
    if (argument[1] == '-') {
      if (apply_option(options, argument)) continue;
      if (!is_python_long_option(argument)) {
        throw UserError(fmt::format("unknown option '{}': see dynrun --help", argument), 2);
      }
      options.python_arguments.emplace_back(argument);
      if (argument == "--check-hash-based-pycs" && at + 1 < argc) options.python_arguments.emplace_back(argv[++at]);
      continue;
    }
    // A cluster of python's letters: the first that takes an argument takes the rest of the word, or the next word.
    options.python_arguments.emplace_back(argument);
    const auto letter = argument.find_first_of(kPythonLettersWithArgument, 1);
    if (letter == argument.npos) continue;
    script_found = argument[letter] == 'c' || argument[letter] == 'm';
    if (letter + 1 == argument.size() && at + 1 < argc) options.python_arguments.emplace_back(argv[++at]);
  }
  for (; at < argc; ++at) options.python_arguments.emplace_back(argv[at]);
  return options;
}

void export_options(const Options& options, const std::string& executable) {
  std::string text;
  if (!options.python.empty()) append_word(text, "--python=" + executable);
  if (options.vm != kDynrunVmAuto) append_word(text, fmt::format("--vm={}", name_of(options.vm, kVmChoices)));
  if (options.explain != kDynrunExplainNone) {
    append_word(text, fmt::format("--explain={}", name_of(options.explain, kExplainChoices)));
  }
  if (!options.explain_file.empty()) append_word(text, "--explain=json:" + options.explain_file);
  if (!options.html_file.empty()) append_word(text, "--explain=html:" + options.html_file);
  if (!options.stats_file.empty()) append_word(text, "--stats=" + options.stats_file);
  for (const Dump& dump : options.dumps) append_word(text, fmt::format("--dump={}:{}", dump.stage, dump.filter));
  for (const Choice& choice : kStressChoices) {
    if (options.stress & static_cast<std::uint32_t>(choice.value)) append_word(text, fmt::format("--stress={}", choice.name));
  }
  if (options.dynamic != kDynrunDynamicAuto) append_word(text, fmt::format("--dynamic={}", name_of(options.dynamic, kDynamicChoices)));
  if (!options.cache.empty()) append_word(text, "--cache=" + options.cache);
  if (options.fullgraph) append_word(text, "--fullgraph");
  if (options.quiet) append_word(text, "--quiet");
  if (options.keep_torch_compile) append_word(text, "--torch-compile=keep");
  if (options.verify) append_word(text, "--verify");
  if (text.empty()) return;
  append_word(text, fmt::format("--parent={}", getpid()));
  setenv(kOptionsVariable, text.c_str(), 1);
}

std::string help_text() {
  std::string text =
      "usage: dynrun [options] [python's options] [script.py | -m module | -c code | -] [arguments]\n\n"
      "Runs a Python script as python does, and its PyTorch code faster.\n\noptions:\n";
  for (const Option& option : kOptions) {
    if (option.help.empty()) continue;
    text += fmt::format("  {:<28} {}\n", fmt::format("--{}{}", option.name, option.argument), option.help);
  }
  text +=
      "\npython's options (-X -W -O -u -E -I -S -B -q -v -i and the rest) and PYTHON* variables mean what they mean to python.\n"
      "Processes that the script starts with sys.executable get the same options, through DYNRUN_OPTIONS.\n";
  return text;
}

std::string version_text() {
  return fmt::format("dynrun {} (CPython {}, PyTorch {})\n", DYNRUN_VERSION, DYNRUN_BUILT_PYTHON_VERSION, DYNRUN_TORCH_VERSION);
}

}  // namespace dynrun::cli
