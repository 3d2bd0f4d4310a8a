// The command line: thin subcommands over the library. Errors are one line on stderr; 1: the work failed, 2: bad usage.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <malloc.h>

#include <cstdio>
#include <filesystem>
#include <new>

#include "cli/commands.h"
#include "recipe/recipe.h"
#include "train/device.h"
#include "train/out_of_memory.h"
#include "util/error.h"
#include "util/text.h"

namespace {

/// LibTorch's messages are followed by a backtrace; its first line says what happened.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// One line, whatever a path on the command line holds.
int report(const std::string& message, int status = 1) {
  fmt::print(stderr, "siamese: {}\n", siamese::printable(message, SIZE_MAX));
  return status;
}

/// CLI11 says "A subcommand is required" also where one was given that does not exist.
std::string usage_message(const CLI::App& app, const CLI::ParseError& e, const char* first) {
  if (!app.get_subcommands().empty() || first == nullptr || *first == '-') return first_line(e.what());
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::string meant = siamese::nearest(first, names);
  return fmt::format("unknown command '{}'; {}", first,
                     meant.empty() ? "`siamese --help` lists all" : "did you mean '" + meant + "'?");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace siamese;
  // Tensors come and go with every step: keep their memory instead of giving it back and faulting it in again.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  CLI::App app{"siamese: train, evaluate and run Transformers with SiameseNorm and every scheme it is compared with"};
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return version_text(); });
  app.footer(
      "Example:\n  siamese train recipes/lm-tiny.yaml --set data.text=book.txt --out runs/book\n"
      "  siamese generate runs/book --prompt \"Once upon\"\n\n`siamese COMMAND --help` explains a command.");
  cli::add_train(app);
  cli::add_eval(app);
  cli::add_generate(app);
  cli::add_sample(app);
  cli::add_compare_images(app);
  cli::add_compare(app);
  cli::add_report(app);
  cli::add_parity(app);
  cli::add_schemes(app);
  cli::add_info(app);
  cli::add_recipe(app);
  cli::add_bench(app);
  try {
    std::error_code ignored;
    const auto self = std::filesystem::canonical("/proc/self/exe", ignored);
    set_recipe_folder((self.parent_path().parent_path() / "recipes").string());
    cli::program = argv[0];
    app.parse(argc, argv);
    // What a full disk or a closed pipe swallowed must not look like success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return report("standard output: cannot write");
    return cli::exit_status;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return report(usage_message(app, e, argc > 1 ? argv[1] : nullptr), 2);
  } catch (const cli::UsageError& e) {
    return report(e.what(), 2);
  } catch (const OutOfMemory& e) {
    const int status = report(e.what());
    fmt::print(stderr, "{}", e.advice());
    return status;
  } catch (const Error& e) {
    return report(e.what());
  } catch (const c10::Error& e) {
    return report(torch_message(e.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return report("out of memory");
  } catch (const std::exception& e) {
    return report(first_line(e.what()));
  }
}
