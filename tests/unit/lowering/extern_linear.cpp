#include "extern_harness.h"

#include "lowering/extern/candidates.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <catch2/catch.hpp>

namespace {

using namespace dynrun::lowering::test;

TEST_CASE("linear with a known weight equals the operator", "[extern]") {
  const std::string way = GENERATE("matmul", "packed", "small");
  const dynrun::lowering::PreferLibrary prefer(way);
  for (auto [rows, in, out] : {std::tuple{1, 8, 4}, {128, 64, 96}, {7, 33, 5}, {197, 384, 64}, {1, 1, 1}, {64, 768, 32}}) {
    for (const char* bias : {"%bias", "None"}) {
      for (const char* tail :
           {"", "aten::relu(%y)", "aten::gelu(%y, \"none\")", "aten::gelu(%y, \"tanh\")", "aten::add.Tensor(%y, %other, 1)",
            "aten::add.Tensor(%other, %y, 1)", "aten::add.Tensor(%y, %other, 2)", "aten::silu(%y)"}) {
        const std::string shape = fmt::format("float32[2, {}, {}]", rows, out);
        const std::string last = *tail ? fmt::format("%z: {} = {}\nreturn %z\n", shape, tail) : "return %y\n";
        const std::string text = fmt::format(
            "graph\ninput %x: float32[2, {}, {}]\ninput %other: {}\nparameter %weight: float32[{}, {}]\nparameter %bias: "
            "float32[{}]\n"
            "%y: {} = aten::linear(%x, %weight, {})\n{}",
            rows, in, shape, out, in, out, shape, bias, last);
        CAPTURE(text);
        CHECK(all_close(run_extern(text)));
      }
    }
  }
}

TEST_CASE("addmm, mm and matmul with a known right side equal the operators", "[extern]") {
  const std::string way = GENERATE("matmul", "packed", "small");
  const dynrun::lowering::PreferLibrary prefer(way);
  const std::string head = "graph\ninput %x: float32[40, 24]\nparameter %w: float32[24, 56]\nparameter %b: float32[56]\n";
  for (const char* call :
       {"aten::addmm(%b, %x, %w, 1, 1)", "aten::addmm(%b, %x, %w, 0.5, 2)", "aten::mm(%x, %w)", "aten::matmul(%x, %w)"}) {
    const std::string text = head + fmt::format("%y: float32[40, 56] = {}\nreturn %y\n", call);
    CAPTURE(text);
    CHECK(all_close(run_extern(text)));
  }
  const std::string strided =
      "graph\ninput %x: float32[40, 24]{1, 40}\nparameter %w: float32[24, 56]{1, 24}\n%y: float32[40, 56] = aten::mm(%x, "
      "%w)\nreturn %y\n";
  CHECK(all_close(run_extern(strided)));
}

TEST_CASE("linear layers whose weight is not known equal the operator", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  const std::string head = "graph\ninput %x: float32[2, 20, 24]\ninput %w: float32[56, 24]\ninput %b: float32[56]\n";
  for (const char* call : {"aten::linear(%x, %w, %b)", "aten::linear(%x, %w, None)"}) {
    ExternRun run = run_extern(
        head + fmt::format("%y: float32[2, 20, 56] = {}\n%z: float32[2, 20, 56] = aten::relu(%y)\nreturn %z\n", call));
    CHECK(all_close(run));
    CHECK(run.folded == std::vector<bool>{false, false, false});
  }
}

TEST_CASE("small linear layers keep NaN under relu", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer("small");
  const std::string text =
      "graph\ninput %x: float32[5, 24]\nparameter %w: float32[19, 24]\nparameter %b: float32[19]\n"
      "%y: float32[5, 19] = aten::linear(%x, %w, %b)\n%z: float32[5, 19] = aten::relu(%y)\nreturn %z\n";
  auto inputs = random_inputs(dynrun::graph::parse(text)), strange = inputs;
  strange[0] = inputs[0].clone();
  strange[0][1][3] = std::numeric_limits<double>::quiet_NaN();
  strange[0][4][0] = -std::numeric_limits<double>::infinity();
  ExternRun run = run_extern(text, inputs, strange);
  CHECK(all_close(run));
  CHECK(claimed(run, "small linear + relu"));
}

TEST_CASE("products of activations equal the operators", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  CHECK(
      all_close(run_extern("graph\ninput %a: float32[6, 33, 16]\ninput %b: float32[6, 16, 40]\n%y: float32[6, 33, 40] = "
                           "aten::bmm(%a, %b)\nreturn %y\n")));
  CHECK(
      all_close(run_extern("graph\ninput %a: float32[2, 3, 65, 32]\ninput %b: float32[2, 3, 32, 48]{4608, 1536, 1, 32}\n%y: "
                           "float32[2, 3, 65, 48] = aten::matmul(%a, %b)\nreturn %y\n")));
  CHECK(
      all_close(run_extern("graph\ninput %a: float32[2, 3, 65, 32]{6240, 32, 96, 1}\ninput %b: float32[2, 3, 32, 48]\n%y: "
                           "float32[2, 3, 65, 48] = aten::matmul(%a, %b)\nreturn %y\n")));
  CHECK(
      all_close(run_extern("graph\ninput %a: float32[2, 3, 65, 32]\ninput %b: float32[3, 32, 48]\n%y: float32[2, 3, 65, 48] = "
                           "aten::matmul(%a, %b)\nreturn %y\n")));
  CHECK(all_close(run_extern(
      "graph\ninput %a: float32[65, 32]\ninput %b: float32[32]\n%y: float32[65] = aten::matmul(%a, %b)\nreturn %y\n")));
}

TEST_CASE("attention equals the operator", "[extern]") {
  const std::string way = GENERATE("flash", "oneDNN");
  const dynrun::lowering::PreferLibrary prefer(way);
  for (auto [heads, queries, keys, width] :
       {std::tuple{12, 128, 128, 64}, {3, 17, 17, 8}, {2, 5, 9, 16}, {2, 70, 67, 80}, {1, 1, 200, 32}, {3, 6, 6, 128}}) {
    for (const char* causal : {"false", "true"}) {
      for (const char* scale : {"None", "0.3"}) {
        const std::string text = fmt::format(
            "graph\ninput %q: float32[2, {0}, {1}, {3}]{{{6}, {3}, {7}, 1}}\ninput %k: float32[2, {0}, {2}, {3}]\ninput %v: "
            "float32[2, {0}, {2}, {3}]\n"
            "%y: float32[2, {0}, {1}, {3}]{{{6}, {3}, {7}, 1}} = aten::scaled_dot_product_attention(%q, %k, %v, None, 0.0, "
            "{4}, {5}, false)\nreturn %y\n",
            heads, queries, keys, width, causal, scale, heads * queries * width, heads * width);
        CAPTURE(text, way);
        auto inputs = random_inputs(dynrun::graph::parse(text)), strange = inputs;
        ExternRun run = run_extern(text, inputs, inputs);
        CHECK(all_close(run));
        if (width % 16 == 0) CHECK(claimed(run, way));
        strange[1] = inputs[1].clone();
        strange[1][1][0][keys / 2][1] = std::numeric_limits<double>::quiet_NaN();
        CHECK(all_close(run_extern(text, inputs, strange)));
      }
    }
  }
}

TEST_CASE("attention with a mask that is known equals the operator", "[extern]") {
  const std::string way = GENERATE("flash", "oneDNN");
  const dynrun::lowering::PreferLibrary prefer(way);
  for (const char* dtype : {"bool", "float32"}) {
    const std::string text = fmt::format(
        "graph\ninput %q: float32[2, 3, 9, 16]\ninput %k: float32[2, 3, 9, 16]\ninput %v: float32[2, 3, 9, 16]\nparameter "
        "%mask: {}[2, 1, 9, 9]\n"
        "%y: float32[2, 3, 9, 16] = aten::scaled_dot_product_attention(%q, %k, %v, %mask, 0.0, false, None, false)\nreturn "
        "%y\n",
        dtype);
    std::vector<at::Tensor> inputs;
    for (int index = 0; index < 3; ++index) inputs.push_back(at::empty({2, 3, 9, 16}).normal_());
    const at::Tensor all = at::ones({2, 1, 9, 9}, at::kBool), lower = at::ones({2, 1, 9, 9}, at::kBool).tril_();
    at::Tensor hidden = lower.clone();
    hidden[1][0][4].fill_(false);
    for (at::Tensor mask : {all, lower, hidden}) {
      const bool is_hidden = mask.is_same(hidden);
      if (std::string(dtype) == "float32") {
        mask = at::empty({2, 1, 9, 9}).normal_().masked_fill_(mask.logical_not(), -std::numeric_limits<double>::infinity());
      }
      auto with_mask = inputs;
      with_mask.push_back(mask);
      CAPTURE(way, dtype);
      ExternRun run = run_extern(text, with_mask, with_mask);
      CHECK(all_close(run));
      CHECK(run.steps.size() == (is_hidden ? 0 : 1));
      if (mask.is_same(lower)) CHECK(claimed(run, "causal"));
    }
  }
}

TEST_CASE("times of the candidates at the sizes of real models", "[.benchmark]") {
  for (auto [rows, in, out] : {std::tuple{128, 768, 768},
                               {128, 768, 3072},
                               {197, 384, 1536},
                               {1, 4096, 1000},
                               {1, 8, 8},
                               {8, 8, 8},
                               {32, 32, 32},
                               {128, 32, 32},
                               {16, 32, 128},
                               {1, 256, 256}}) {
    run_extern(
        fmt::format("graph\ninput %x: float32[{0}, {1}]\nparameter %w: float32[{2}, {1}]\nparameter %b: float32[{2}]\n"
                    "%y: float32[{0}, {2}] = aten::linear(%x, %w, %b)\nreturn %y\n",
                    rows, in, out));
  }
  for (auto [heads, length, width] : {std::tuple{12, 128, 64}, {6, 197, 64}, {8, 128, 64}, {4, 16, 16}, {12, 512, 64}}) {
    for (const char* causal : {"false", "true"}) {
      run_extern(fmt::format(
          "graph\ninput %q: float32[1, {0}, {1}, {2}]{{{3}, {2}, {4}, 1}}\ninput %k: float32[1, {0}, {1}, {2}]{{{3}, {2}, {4}, "
          "1}}\n"
          "input %v: float32[1, {0}, {1}, {2}]{{{3}, {2}, {4}, 1}}\n%y: float32[1, {0}, {1}, {2}]{{{3}, {2}, {4}, 1}} = "
          "aten::scaled_dot_product_attention(%q, %k, %v, None, 0.0, {5}, None, false)\nreturn %y\n",
          heads, length, width, heads * length * width, heads * width, causal));
    }
  }
  for (const std::string& line : dynrun::lowering::measurements()) WARN(line);
}

}  // namespace
