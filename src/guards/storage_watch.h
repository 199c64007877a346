#pragma once
// Finds out when somebody could write a folded parameter behind its version counter: `.data`, numpy(), untyped_storage() and
// their kind give a second way to the same memory. They are caught where torch defines them, whoever calls. Most own the storage,
// whose use count tells how long they live; DLPack's and data_ptr() give the address away for good.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dynrun::guards {

/// Puts the catchers into torch's own tables, once. Needs the GIL and torch imported.
void watch_storage_aliases();

/// Starts counting the aliases made of `tensor`'s storage, which must stay alive while it is asked about.
void watch_storage(const at::Tensor& tensor);
/// Counts a write that moves no version counter like such an alias. The tensor may be undefined. Needs no GIL.
void note_written(const at::Tensor& tensor);
/// Counts such a write of every storage that is watched. Needs no GIL.
void note_all_written();
/// The storage may be written at any time from now on, by what does not show among its owners: it is not foldable again. Needs no GIL.
void give_away(const at::Tensor& tensor);
/// How many were made since; 0 when it is not watched.
std::uint64_t alias_epoch(const at::Tensor& tensor);

/// How many aliases of any watched storage were made: while it stays, so does each `alias_epoch`.
std::uint64_t alias_count();
constexpr std::uint64_t kNoAliasCount = ~std::uint64_t{0};

/// Whether one tensor alone owns the storage. torch's Python object of it, which lives on once it was asked for (by a deepcopy, say), is
/// no owner while no program holds it. Needs the GIL.
bool has_one_owner(const c10::Storage& storage);
/// Whether the contents may be read once and kept: nobody else owns the storage, and writes move a version counter. Needs the GIL.
bool is_foldable(const at::Tensor& tensor);

}  // namespace dynrun::guards
