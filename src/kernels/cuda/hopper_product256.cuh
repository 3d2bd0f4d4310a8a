// The product of hopper.cuh over 256 columns, A's rows fastest or its k.
#pragma once

#include <cstdint>

namespace siamese::kernels::hopper {

// clang-format off
#define SIAMESE_R8(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define SIAMESE_R64(d, i) SIAMESE_R8(d, i), SIAMESE_R8(d, i + 8), SIAMESE_R8(d, i + 16), SIAMESE_R8(d, i + 24), SIAMESE_R8(d, i + 32), SIAMESE_R8(d, i + 40), SIAMESE_R8(d, i + 48), SIAMESE_R8(d, i + 56)
template <bool m_fastest, bool n_fastest>
__device__ __forceinline__ void product256(float (&d)[128], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
      "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "
      "%120, %121, %122, %123, %124, %125, %126, %127}, "
      "%128, %129, p, 1, 1, %131, %132;\n}"
      : SIAMESE_R64(d, 0), SIAMESE_R64(d, 64)
      : "l"(a), "l"(b), "r"(add), "n"(m_fastest ? 1 : 0), "n"(n_fastest ? 1 : 0));
}
#undef SIAMESE_R64
#undef SIAMESE_R8
// clang-format on

}  // namespace siamese::kernels::hopper
