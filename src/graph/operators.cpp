#include "graph/operators.h"

#include <unordered_set>

namespace dynrun::graph {

bool may_raise_on_data(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {
      "aten::embedding", "aten::embedding_bag", "aten::index", "aten::index_select", "aten::gather", "aten::take",
      "aten::take_along_dim", "aten::scatter", "aten::scatter_", "aten::scatter_add", "aten::scatter_add_", "aten::index_put",
      "aten::index_put_", "aten::index_add", "aten::index_add_", "aten::index_copy", "aten::index_copy_", "aten::index_fill",
      "aten::nll_loss", "aten::nll_loss_nd", "aten::cross_entropy_loss", "aten::one_hot", "aten::multinomial", "aten::bernoulli",
      "aten::binary_cross_entropy", "aten::cholesky", "aten::linalg_cholesky", "aten::linalg_inv", "aten::inverse",
      "aten::linalg_solve", "aten::linalg_eigh", "aten::histogram", "aten::segment_reduce", "aten::ctc_loss", "aten::linalg_svd", "aten::svd", "aten::put_",
      "aten::bincount", "aten::repeat_interleave", "aten::linalg_lstsq", "aten::masked_scatter_"};
  return names.count(name) != 0 || name.rfind("aten::", 0) != 0;
}

bool may_raise_on_data(const Node& node) {
  const std::string& name = node.op.schema().name();
  if (name == "aten::select" || name == "aten::select_copy") return node.arguments[2].is_value();
  return may_raise_on_data(std::string_view(name));
}

}  // namespace dynrun::graph
