// The command line: thin subcommands over the library. Errors are one line on stderr; 1: the work failed, 2: bad usage.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "cli/commands.h"
#include "recipe/recipe.h"
#include "train/device.h"
#include "util/error.h"

namespace {

/// LibTorch's messages are followed by a backtrace; its first line says what happened.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int report(const std::string& message) {
  fmt::print(stderr, "siamese: {}\n", message);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace siamese;
  CLI::App app{"siamese: train, evaluate and run Transformers with SiameseNorm and every scheme it is compared with"};
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return version_text(); });
  app.footer("Example:\n  siamese train recipes/lm-tiny.yaml --set data.text=book.txt --out runs/book\n"
             "  siamese generate runs/book --prompt \"Once upon\"\n\n`siamese COMMAND --help` explains a command.");
  cli::add_train(app);
  cli::add_eval(app);
  cli::add_generate(app);
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
    app.parse(argc, argv);
    return cli::exit_status;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    fmt::print(stderr, "siamese: {}\n", first_line(e.what()));
    return 2;
  } catch (const Error& e) {
    return report(e.what());
  } catch (const c10::Error& e) {
    return report(first_line(e.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return report("out of memory");
  } catch (const std::exception& e) {
    return report(first_line(e.what()));
  }
}
