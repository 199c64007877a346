#pragma once
// The command line: dynrun's own options first, then python's, which are passed on untouched.

#include "engine/exports.h"

#include <optional>
#include <string>
#include <vector>

namespace dynrun::cli {

struct Dump {
  std::string stage;
  std::string filter;
};

struct Options {
  bool help = false;
  bool version = false;
  std::string python;      // --python
  DynrunVm vm = kDynrunVmAuto;
  DynrunExplain explain = kDynrunExplainNone;
  bool explain_ids = false;   // show the table and end
  std::string explain_file;   // as JSON; empty: none
  std::string html_file;      // as HTML; empty: none
  std::string stats_file;  // absolute
  std::vector<Dump> dumps;
  std::uint32_t stress = 0;
  DynrunDynamic dynamic = kDynrunDynamicAuto;
  std::string cache;       // a folder, absolute; "off"; empty: the user's
  bool fullgraph = false;
  bool quiet = false;
  bool keep_torch_compile = false;
  bool verify = false;
  bool child = false;      // started by another dynrun, which handed its options down

  std::vector<std::string> python_arguments;  // what python gets: argv[0], python's options, the script and its arguments
};

/// Reads DYNRUN_OPTIONS (the options of the dynrun that started this one, or the user's defaults), then the command line.
/// Throws UserError.
Options parse_options(int argc, char** argv);

/// Puts the options in DYNRUN_OPTIONS for the processes that the script starts; `executable` is the interpreter that --python
/// led to. Nothing changes when there are no options.
void export_options(const Options& options, const std::string& executable);

std::string help_text();
std::string version_text();

}  // namespace dynrun::cli
