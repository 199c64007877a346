#include "runtime/plan.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <random>

using namespace dynrun::runtime;

TEST_CASE("buffers that live together do not overlap, and memory is reused", "[memory plan]") {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<BufferLife> buffers;
    std::int64_t sum = 0;
    for (int i = 0; i < 40; ++i) {
      auto first = static_cast<std::int32_t>(random() % 60);
      buffers.push_back(
          {static_cast<std::int64_t>(random() % 5000), first, first + static_cast<std::int32_t>(random() % 6), 0});
      sum += buffers.back().bytes;
    }
    std::int64_t total = plan_memory(buffers);
    CHECK(total < sum);
    for (const BufferLife& a : buffers) {
      CHECK(a.offset % 64 == 0);
      CHECK(a.offset + a.bytes <= total);
      for (const BufferLife& b : buffers) {
        bool together = &a != &b && a.first <= b.last && b.first <= a.last && a.bytes > 0 && b.bytes > 0;
        if (together) CHECK((a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset));
      }
    }
  }
}

TEST_CASE("parallel_for visits every unit once and hands exceptions over", "[parallel]") {
  std::vector<std::atomic<int>> visits(1001);
  parallel_for(1001, 10, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
  });
  for (auto& count : visits) CHECK(count == 1);
  CHECK_THROWS_AS(parallel_for(1000, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("no"); }),
                  std::runtime_error);
  parallel_for(0, 1, [](std::int64_t, std::int64_t) { FAIL("nothing to do"); });
}
