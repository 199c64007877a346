// Runs examples/embed/model.py from C++: embed MODEL.py NAME
#include <dynrun/engine.h>

#include <ATen/ATen.h>

#include <cstdio>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed MODEL.py NAME\n");
    return 2;
  }
  try {
    dynrun::Engine engine;
    dynrun::Callable classify = engine.load(argv[1], argv[2]);
    at::Tensor batch = at::ones({4, 64});
    for (int i = 0; i < 3; i++) {
      std::vector<at::Tensor> results = classify({batch * i});
      std::cout << "call " << i << ": classes " << results.back().reshape({1, -1}) << "\n";
    }
    std::cout << engine.stats();
  } catch (const dynrun::Error& error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return 1;
  }
  return 0;
}
