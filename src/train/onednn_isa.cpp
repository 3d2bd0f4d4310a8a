// oneDNN's bf16 products, as LibTorch 2.11 brings them, can die on Intel's AMX units: seen on a Xeon under Linux 6.18
// as "Illegal instruction" at a tilezero of generated code, in a process that may use the unit and where tiles of one's
// own work. AVX-512 takes their place, as exact and at worst slower; whoever sets the variable decides otherwise.
// oneDNN reads it at its first product, this runs before main.
#include <cstdlib>

namespace siamese {
namespace {

[[maybe_unused]] const int limited = setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16", /*overwrite=*/0);

}  // namespace
}  // namespace siamese
