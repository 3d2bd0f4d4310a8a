// Tables of bad input: one row is one command line and what the program has to say to it.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "process.h"

namespace siamese::test {

/// In `args` and `says`, {d} stands for the prepared folder, which nothing may change, and {s} for a scratch folder.
struct BadInput {
  std::string name;  // letters and digits: the test is called after it
  Args args;
  int status;
  std::vector<std::string> says;
};

inline std::ostream& operator<<(std::ostream& out, const BadInput& row) { return out << shown(row.args); }

/// The prepared folder holds, made once for all tables:
///   run/         a small byte model with averaged weights, checkpoints at steps 2 and 4
///   tokens-run/  a model of 64 token ids, one checkpoint
///   young-run/   a run that was killed before its first checkpoint
///   recipes/, data/, checkpoints/, golden/: files that are wrong in one way each (see prepare_files.cpp)
const std::string& prepared_folder();

/// Runs the row and checks: the status, one line on stderr that says what it should, nothing prepared has changed.
void check_refused(const BadInput& row);

/// The parts of the prepared folder.
void prepare_recipes(const std::string& folder);
void prepare_data(const std::string& folder);
void prepare_checkpoints(const std::string& folder, const std::string& whole);
void prepare_golden(const std::string& folder);

/// The arguments of `tiny_train`, with more `--set`s.
Args tiny_with(const std::string& out, const Args& set);

inline std::string row_name(const testing::TestParamInfo<BadInput>& info) { return info.param.name; }

}  // namespace siamese::test
