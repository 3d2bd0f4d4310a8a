// One function a subcommand: it adds its options to the program and its work as the callback.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "util/error.h"

namespace siamese::cli {

/// What the chosen subcommand returns to the shell.
inline int exit_status = 0;
/// How the user called this program, for commands it prints.
inline std::string program = "siamese";

/// Arguments that do not go together: exit status 2, as for those that CLI11 refuses.
class UsageError : public Error {
 public:
  using Error::Error;
};

void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_generate(CLI::App& app);
void add_sample(CLI::App& app);
void add_compare_images(CLI::App& app);
void add_parity(CLI::App& app);
void add_schemes(CLI::App& app);
void add_info(CLI::App& app);
void add_recipe(CLI::App& app);
void add_bench(CLI::App& app);
void add_compare(CLI::App& app);
void add_report(CLI::App& app);

}  // namespace siamese::cli
