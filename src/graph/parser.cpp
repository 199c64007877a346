// Reads the text form that printer.cpp describes.

#include "graph/graph.h"
#include "graph/text.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <stdexcept>

namespace dynrun::graph {
namespace {

class LineReader {
 public:
  LineReader(std::string_view text, int line) : text_(text), line_(line) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("graph text, line {}, column {}: {}", line_, position_ + 1, what));
  }
  void skip_spaces() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
  }
  bool at_end() {
    skip_spaces();
    return position_ >= text_.size();
  }
  char peek() {
    skip_spaces();
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("expected '{}'", token));
  }
  /// Letters, digits and what names may hold besides.
  std::string word(std::string_view extra = "_") {
    skip_spaces();
    std::size_t start = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) || extra.find(text_[position_]) != extra.npos)) {
      ++position_;
    }
    if (start == position_) fail("expected a word");
    return std::string(text_.substr(start, position_ - start));
  }
  bool accept_word(std::string_view expected) {
    skip_spaces();
    std::size_t end = position_ + expected.size();
    if (text_.substr(position_, expected.size()) != expected) return false;
    if (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) return false;
    position_ = end;
    return true;
  }
  /// A value's name may hold brackets and dots, so it ends at a separator outside brackets.
  std::string name() {
    expect("%");
    std::size_t start = position_;
    int depth = 0;
    for (; position_ < text_.size(); ++position_) {
      char c = text_[position_];
      if (c == '[') ++depth;
      if (c == ']' && --depth < 0) break;
      if (depth == 0 && (c == ',' || c == ' ' || c == ')' || c == ':')) break;
    }
    if (start == position_) fail("expected a name");
    return std::string(text_.substr(start, position_ - start));
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    while (position_ < text_.size() && text_[position_] != '"') {
      char c = text_[position_++];
      if (c == '\\' && position_ < text_.size()) {
        c = text_[position_++];
        if (c == 'n') c = '\n';
      }
      out += c;
    }
    expect("\"");
    return out;
  }
  c10::IValue number() {
    std::string text = word("+-.");
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan" || text == "-nan") return std::numeric_limits<double>::quiet_NaN();
    if (text.find_first_of(".e") == std::string::npos) return c10::IValue(parse_int(text));
    try {
      return std::stod(text);
    } catch (const std::exception&) {
      fail(fmt::format("'{}' is not a number", text));
    }
  }
  std::int64_t integer() { return parse_int(word("+-")); }

 private:
  std::int64_t parse_int(const std::string& text) {
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail(fmt::format("'{}' is not an integer", text));
    return value;
  }

  std::string_view text_;
  int line_;
  std::size_t position_ = 0;
};

class Parser {
 public:
  Graph parse(std::string_view text) {
    int number = 0;
    while (!text.empty()) {
      std::size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == text.npos ? std::string_view() : text.substr(end + 1);
      LineReader reader(line, ++number);
      if (!reader.at_end() && reader.peek() != '#') read_line(reader);
    }
    return std::move(graph_);
  }

 private:
  void read_line(LineReader& in) {
    if (in.accept_word("graph")) return;
    if (in.accept_word("source")) return read_source(in);
    if (in.accept_word("input")) return read_input(in, InputKind::kActivation);
    if (in.accept_word("parameter")) return read_input(in, InputKind::kParameter);
    if (in.accept_word("return")) return read_return(in);
    read_node(in);
  }

  void read_source(LineReader& in) {
    if (in.integer() != static_cast<std::int64_t>(graph_.sources.size())) in.fail("sources must count up from 0");
    Source source;
    source.file = in.quoted();
    source.function = in.quoted();
    source.line = static_cast<int>(in.integer());
    graph_.sources.push_back(std::move(source));
  }

  void read_input(LineReader& in, InputKind kind) {
    std::string name = in.name();
    in.expect(":");
    graph_.inputs.push_back({define(in, name, read_value_type(in)), kind});
  }

  void read_return(LineReader& in) {
    while (!in.at_end()) {
      graph_.outputs.push_back(in.accept("_") ? kNoValue : lookup(in, in.name()));
      if (!in.accept(",")) break;
    }
    if (!in.at_end()) in.fail("unexpected text");
  }

  void read_node(LineReader& in) {
    std::vector<ValueId> outputs;
    std::vector<std::int32_t> lengths;
    if (in.peek() == '%' || in.peek() == '[' || in.peek() == '_') {
      do {
        if (in.accept("[")) {
          std::int32_t count = 0;
          while (!in.accept("]")) {
            outputs.push_back(read_output(in));
            ++count;
            in.accept(",");
          }
          lengths.push_back(count);
        } else {
          outputs.push_back(read_output(in));
          lengths.push_back(-1);
        }
      } while (in.accept(","));
      in.expect("=");
    }
    std::string name = in.word("_:.");
    std::size_t dot = name.find('.');
    c10::OperatorName op_name(name.substr(0, dot), dot == name.npos ? "" : name.substr(dot + 1));
    auto op = c10::Dispatcher::singleton().findSchema(op_name);
    if (!op) in.fail(fmt::format("no operator {}", name));
    Node node{*op, {}, {}, {}, {}, -1};
    node.outputs = std::move(outputs);
    node.return_lengths = std::move(lengths);
    in.expect("(");
    while (!in.accept(")")) {
      node.arguments.push_back(read_argument(in));
      if (!in.accept(",") && in.peek() != ')') in.fail("expected ',' or ')'");
    }
    if (in.accept_word("mode")) node.mode = read_mode(in);
    if (in.accept_word("source")) node.source = static_cast<std::int32_t>(in.integer());
    if (!in.at_end()) in.fail("unexpected text");
    graph_.nodes.push_back(std::move(node));
  }

  Mode read_mode(LineReader& in) {
    Mode mode;
    in.expect("(");
    do {
      if (in.accept_word("grad")) {
        mode.grad_enabled = true;
      } else if (in.accept_word("inference")) {
        mode.inference = true;
      } else if (in.accept_word("autocast")) {
        mode.autocast = true;
        if (in.accept_word("cuda")) mode.autocast_device = c10::DeviceType::CUDA;
        mode.autocast_dtype = dtype(in, in.word());
      } else {
        in.fail("unknown mode");
      }
    } while (in.accept(","));
    in.expect(")");
    return mode;
  }

  ValueId read_output(LineReader& in) {
    if (in.accept("_")) return kNoValue;
    std::string name = in.name();
    return in.accept(":") ? define(in, name, read_value_type(in)) : lookup(in, name);
  }

  Argument read_argument(LineReader& in) {
    if (in.peek() == '%') return Argument::reference(lookup(in, in.name()));
    if (in.accept("_")) return Argument::reference(kNoValue);
    if (in.accept("[")) {
      std::vector<Argument> items;
      while (!in.accept("]")) {
        items.push_back(read_argument(in));
        in.accept(",");
      }
      return Argument::list(std::move(items));
    }
    return Argument::constant(read_constant(in));
  }

  template <typename T, typename Read>
  c10::IValue read_list(LineReader& in, Read read) {
    c10::List<T> items;
    while (!in.accept("]")) {
      items.push_back(read());
      in.accept(",");
    }
    return items;
  }

  c10::IValue read_constant(LineReader& in) {
    if (in.accept_word("None")) return {};
    if (in.accept_word("true")) return true;
    if (in.accept_word("false")) return false;
    if (in.peek() == '"') return in.quoted();
    if (in.accept("int[")) return read_list<std::int64_t>(in, [&] { return in.integer(); });
    if (in.accept("float[")) return read_list<double>(in, [&] { return in.number().toDouble(); });
    if (in.accept("bool[")) return read_list<bool>(in, [&] { return in.word() == "true"; });
    if (in.accept("str[")) return read_list<std::string>(in, [&] { return in.quoted(); });
    if (in.accept("device(")) {
      c10::Device device(in.quoted());
      in.expect(")");
      return device;
    }
    if (in.accept("complex(")) {
      double real = in.number().toDouble();
      in.expect(",");
      double imaginary = in.number().toDouble();
      in.expect(")");
      return c10::complex<double>(real, imaginary);
    }
    return in.number();
  }

  std::variant<TensorType, HostType> read_value_type(LineReader& in) {
    std::string name = in.word();
    if (name == "int") return HostType::kInt;
    if (name == "float") return HostType::kFloat;
    if (name == "bool" && in.peek() != '[' && in.peek() != '@') return HostType::kBool;
    TensorType type;
    type.dtype = dtype(in, name);
    if (in.accept("@")) type.device = c10::Device(in.word(":"));
    in.expect("[");
    type.sizes = read_integers(in, "]");
    type.strides = contiguous_strides(type.sizes);
    if (in.accept("{")) {
      if (in.accept("-")) {
        type.strides.clear();
        in.expect("}");
      } else {
        type.strides = read_integers(in, "}");
      }
    }
    type.number = in.accept("!number");
    type.lazy = in.accept("!lazy");
    type.unsized = in.accept("!unsized");
    type.requires_grad = in.accept("!grad");
    return type;
  }

  std::vector<std::int64_t> read_integers(LineReader& in, std::string_view end) {
    std::vector<std::int64_t> out;
    while (!in.accept(end)) {
      out.push_back(in.integer());
      in.accept(",");
    }
    return out;
  }

  static c10::ScalarType dtype(LineReader& in, const std::string& name) {
    for (const auto& [type, known] : kDtypeNames) {
      if (known == name) return type;
    }
    in.fail(fmt::format("no dtype {}", name));
  }

  ValueId define(LineReader& in, const std::string& name, std::variant<TensorType, HostType> type) {
    ValueId id = graph_.add_value({std::move(type), name});
    if (!names_.emplace(name, id).second) in.fail(fmt::format("%{} is defined twice", name));
    return id;
  }
  ValueId lookup(LineReader& in, const std::string& name) {
    auto found = names_.find(name);
    if (found == names_.end()) in.fail(fmt::format("%{} is not defined", name));
    return found->second;
  }

  Graph graph_;
  std::unordered_map<std::string, ValueId> names_;
};

}  // namespace

Graph parse(std::string_view text) {
  return Parser().parse(text);
}

}  // namespace dynrun::graph
